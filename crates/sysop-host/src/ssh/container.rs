//! Containers as remote machines: `docker:NAME`, `podman:NAME`, `kube:NAMESPACE/POD` or `kube:NAMESPACE/POD/CONTAINER`.
//!
//! The user's own `docker`, `podman` or `kubectl` takes the place of `ssh`: each session is one `exec`, which
//! runs the same scripts as over ssh. Nothing is installed in the container; it needs a POSIX `sh`. Killing
//! an `exec` leaves its program in the container running, so a second session kills it, as on ssh hosts.

use std::ffi::OsString;

/// A container that the user named as a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Container {
    engine: ContainerEngine,
    /// User inside the container, if one is given.
    user: Option<String>,
    /// Name of the container, or of the pod.
    name: String,
    /// Namespace of the pod, and its container if it has several.
    pod: Option<(String, Option<String>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContainerEngine {
    Docker,
    Podman,
    Kubernetes,
}

/// Prefixes of destinations.
const ENGINES: [(&str, ContainerEngine); 3] = [
    ("docker:", ContainerEngine::Docker),
    ("podman:", ContainerEngine::Podman),
    ("kube:", ContainerEngine::Kubernetes),
];

impl Container {
    /// Parses a destination. Returns `None` for an ssh host, an error for a malformed container name.
    pub(super) fn parse(destination: &str) -> Option<Result<Self, String>> {
        let (user, rest) = match destination.split_once('@') {
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, destination),
        };
        let (prefix, engine) = ENGINES.into_iter().find(|(prefix, _)| rest.starts_with(prefix))?;
        Some(Self::of(engine, user, &rest[prefix.len()..]))
    }

    fn of(engine: ContainerEngine, user: Option<String>, name: &str) -> Result<Self, String> {
        let parts: Vec<&str> = name.split('/').collect();
        if parts.iter().any(|part| part.is_empty() || !part.chars().all(is_of_name) || part.starts_with('-'))
        {
            return Err("a name has letters, digits, `.`, `_` and `-` only".to_owned());
        }
        match (engine, &parts[..]) {
            (ContainerEngine::Docker | ContainerEngine::Podman, [name]) => {
                Ok(Self { engine, user, name: (*name).to_owned(), pod: None })
            }
            (ContainerEngine::Docker | ContainerEngine::Podman, _) => {
                Err("expected the name or id of one container".to_owned())
            }
            (ContainerEngine::Kubernetes, _) if user.is_some() => {
                Err("kubectl runs commands as the user of the pod; omit the user".to_owned())
            }
            (ContainerEngine::Kubernetes, [namespace, pod, rest @ ..]) if rest.len() <= 1 => {
                let container = rest.first().map(|container| (*container).to_owned());
                Ok(Self {
                    engine,
                    user,
                    name: (*pod).to_owned(),
                    pod: Some(((*namespace).to_owned(), container)),
                })
            }
            (ContainerEngine::Kubernetes, _) => {
                Err("expected kube:NAMESPACE/POD or kube:NAMESPACE/POD/CONTAINER".to_owned())
            }
        }
    }

    pub(super) fn program(&self) -> &'static str {
        match self.engine {
            ContainerEngine::Docker => "docker",
            ContainerEngine::Podman => "podman",
            ContainerEngine::Kubernetes => "kubectl",
        }
    }

    /// Returns the arguments that run a command line with `sh` in the container, in the user's home directory.
    pub(super) fn arguments(&self, line: &str, terminal: SessionTerminal) -> Vec<OsString> {
        let mut words = vec!["exec", "-i"];
        if terminal == SessionTerminal::Attached {
            words.push("-t");
        }
        if let Some(user) = &self.user {
            words.extend(["-u", user]);
        }
        match &self.pod {
            None => words.push(&self.name),
            Some((namespace, container)) => {
                words.extend(["-n", namespace, &self.name]);
                if let Some(container) = container {
                    words.extend(["-c", container]);
                }
                words.push("--");
            }
        }
        // An `exec` starts in the image's working directory. Without a home directory, the session stays there.
        let line = format!("cd 2>/dev/null; {line}");
        words.extend(["sh", "-c", &line]);
        words.into_iter().map(OsString::from).collect()
    }

    /// Returns the command that lists what can be reached, for error messages.
    pub(super) fn list_command(&self) -> &'static str {
        match self.engine {
            ContainerEngine::Docker => "docker ps",
            ContainerEngine::Podman => "podman ps",
            ContainerEngine::Kubernetes => "kubectl get pods -A",
        }
    }
}

/// Returns true if a destination names a container, rather than a host that `ssh` reaches.
pub fn is_container(destination: &str) -> bool {
    Container::parse(destination).is_some()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionTerminal {
    /// The session uses the caller's terminal.
    Attached,
    None,
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "._-".contains(character)
}

#[cfg(test)]
mod tests {
    use super::{Container, SessionTerminal};

    fn arguments(destination: &str, terminal: SessionTerminal) -> (String, String) {
        let container = Container::parse(destination).unwrap().unwrap();
        let words: Vec<_> = container
            .arguments("exec sh -c 'x y'", terminal)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        (container.program().to_owned(), words.join(" "))
    }

    #[test]
    fn a_container_is_reached_by_its_own_program() {
        let none = SessionTerminal::None;
        let expected = [
            ("docker:web", "docker", "exec -i web sh -c cd 2>/dev/null; exec sh -c 'x y'"),
            ("app@docker:web", "docker", "exec -i -u app web sh -c cd 2>/dev/null; exec sh -c 'x y'"),
            ("podman:web_1.x", "podman", "exec -i web_1.x sh -c cd 2>/dev/null; exec sh -c 'x y'"),
            ("kube:shop/web-0", "kubectl", "exec -i -n shop web-0 -- sh -c cd 2>/dev/null; exec sh -c 'x y'"),
            (
                "kube:shop/web-0/nginx",
                "kubectl",
                "exec -i -n shop web-0 -c nginx -- sh -c cd 2>/dev/null; exec sh -c 'x y'",
            ),
        ];
        for (destination, program, line) in expected {
            assert_eq!(arguments(destination, none), (program.to_owned(), line.to_owned()), "{destination}");
        }
        let (_, line) = arguments("docker:web", SessionTerminal::Attached);
        assert!(line.starts_with("exec -i -t web "), "{line}");
    }

    #[test]
    fn names_that_a_program_could_misread_are_rejected() {
        for odd in [
            "docker:", "docker:-v", "docker:a/b", "docker:a b", "kube:web", "kube:a/b/c/d", "kube:/b",
            "a@kube:x/y", "podman:$(x)",
        ] {
            assert!(Container::parse(odd).unwrap().is_err(), "{odd}");
        }
        for host in ["web1", "a@web1", "ssh://docker:22", "dockerx", "::1"] {
            assert!(Container::parse(host).is_none(), "{host}");
        }
    }
}
