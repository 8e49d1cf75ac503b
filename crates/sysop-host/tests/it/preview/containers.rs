//! Previews of `kubectl`, with the recorded output of a real one (1.32).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use sysop_core::preview::{self, ProbeResult};
use tempfile::TempDir;

use super::plan;

/// Answers as the real program does, and notes its arguments. Everything that is not a question is refused.
const KUBECTL: &str = r#"#!/bin/sh
printf '%s\n' "$*" >>"${0%/*}/asked"
case "$*" in
*"config view"*) case "$*" in *"--context prod"*) printf 'prod\nshop\nhttps://prod.example:6443' ;; *) printf 'dev\n\nhttps://dev.example:6443' ;; esac; exit ;;
*--dry-run=server*) ;;
*) echo changed >>"${0%/*}/changed"; exit 1 ;;
esac
case "$*" in
*"pod web-1 web-2 nothere"*)
  printf 'pod "web-1" deleted (server dry run)\npod "web-2" deleted (server dry run)\n'
  echo 'Error from server (NotFound): pods "nothere" not found' >&2; exit 1 ;;
*"delete pods -l app=web"*) printf 'pod "web-%s" deleted (server dry run)\n' 1 2 3 4 5 ;;
*"delete pod web-1"*) printf 'pod "web-1" deleted from shop namespace (server dry run)\n' ;;
*apply*) printf 'deployment.apps/web configured (server dry run)\nconfigmap/settings created (server dry run)\nservice/web unchanged (server dry run)\n' ;;
*scale*) echo 'deployment.apps/web scaled (server dry run)' ;;
*patch*) echo 'deployment.apps/web patched' ;;
*drain*)
  echo 'node/n1 cordoned (server dry run)'
  echo 'Warning: deleting Pods that declare no controller: default/web-1, default/web-2' >&2
  printf 'evicting pod default/web-2 (server dry run)\nevicting pod default/web-1 (server dry run)\nnode/n1 drained (server dry run)\n' ;;
*) echo 'The connection to the server was refused' >&2; exit 1 ;;
esac
"#;

const DEV: &str = "in context dev, namespace default, on https://dev.example:6443";

/// A directory with the recorded `kubectl`.
struct RecordedKubectl(TempDir);

impl RecordedKubectl {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let tool = home.path().join("kubectl");
        fs::write(&tool, KUBECTL).unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        Self(home)
    }

    fn preview(&self, command: &str) -> String {
        let plan = plan(command).unwrap_or_else(|| panic!("no preview: {command}"));
        let script = plan.script(false).unwrap_or_else(|| panic!("no probe: {command}"));
        let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap());
        let mut run = Command::new("bash");
        run.args(["-c", script]).env("PATH", &path).current_dir(self.0.path()).stdin(Stdio::null());
        let output = run.output().unwrap().stdout;
        preview::lines(&plan, &[ProbeResult { host: String::new(), output: Ok(output) }]).join("\n")
    }
}

#[test]
fn kubectl_names_its_place_and_counts_what_the_server_would_change() {
    let kubectl = RecordedKubectl::new();
    for (command, wanted) in [
        (
            "kubectl delete pods -l app=web",
            format!("delete {DEV}; 5 deleted: pod/web-1, pod/web-2, pod/web-3 and 2 more"),
        ),
        (
            "kubectl --context prod -n shop delete pod web-1",
            "delete in context prod, namespace shop, on https://prod.example:6443; 1 deleted: pod/web-1"
                .to_owned(),
        ),
        (
            "kubectl delete pod web-1 --namespace=shop",
            "delete in context dev, namespace shop, on https://dev.example:6443; 1 deleted: pod/web-1"
                .to_owned(),
        ),
        (
            "kubectl delete pod web-1 web-2 nothere",
            format!(
                "delete {DEV}; 2 deleted: pod/web-1, pod/web-2; the server answers: Error from server (NotFound): pods \
                 \"nothere\" not found"
            ),
        ),
        (
            "kubectl apply -f m.yaml",
            format!(
                "apply {DEV}; 1 configured: deployment.apps/web; 1 created: configmap/settings; 1 unchanged: service/web"
            ),
        ),
        ("kubectl scale deploy web --replicas=5", format!("scale {DEV}; 1 scaled: deployment.apps/web")),
        ("kubectl patch deploy web -p '{}'", format!("patch {DEV}; 1 patched: deployment.apps/web")),
        (
            "kubectl drain n1 --force",
            format!("drain {DEV}; 1 cordoned: node/n1; 2 evicted: default/web-2, default/web-1"),
        ),
        ("kubectl rollout restart deploy web", format!("rollout {DEV}")),
        ("kubectl apply -f -", format!("apply {DEV}")),
        ("kubectl apply -f https://a.example/x.yaml", format!("apply {DEV}")),
        ("kubectl delete --raw=/api/v1/nodes/n1", format!("delete {DEV}")),
        (
            "kubectl create configmap x",
            format!("create {DEV}; the server answers: The connection to the server was refused"),
        ),
    ] {
        assert_eq!(kubectl.preview(command), wanted, "{command}");
    }
    assert!(!kubectl.0.path().join("changed").exists(), "a probe only asks");
}

/// The question is asked before the approval: nothing that the command names may run, or get a token.
#[test]
fn kubectl_asks_no_server_that_the_command_names_and_runs_no_plugin() {
    let kubectl = RecordedKubectl::new();
    for command in [
        "kubectl --kubeconfig evil delete pod web-1",
        "kubectl --kubeconfig=evil delete pod web-1",
        "kubectl -s https://evil.example delete pod web-1",
        "kubectl -shttps://evil.example delete pod web-1",
        "kubectl --token x delete pod web-1",
        "kubectl delete pod web-1 --cache-dir x",
        "kubectl apply -k .",
        "kubectl apply -Rf https://a.example/x.yaml",
        "kubectl create plugin-of-somebody x",
    ] {
        let shown = kubectl.preview(command);
        assert!(shown.ends_with(DEV), "{command}: {shown}");
    }
    let asked = fs::read_to_string(kubectl.0.path().join("asked")).unwrap();
    assert!(!asked.contains("--dry-run") && asked.contains("config view"), "{asked}");
}

#[test]
fn a_probe_of_docker_repeats_nothing_that_names_programs_servers_or_configs() {
    for command in [
        "docker --config x compose down",
        "docker -H ssh://evil rm a",
        "docker --host=tcp://evil:1 stop a",
        "docker --tlscert x rm a",
        "podman --runtime ./x rm a",
        "podman --url ssh://evil rm a",
        "docker compose --env-file x down",
        "docker compose -f https://a.example/x.git down",
    ] {
        let script = plan(command).and_then(|plan| plan.script(false).map(str::to_owned));
        assert_eq!(script, None, "{command}");
    }
    let script =
        |command: &str| plan(command).and_then(|plan| plan.script(false).map(str::to_owned)).unwrap();
    assert!(script("docker --context prod rm a").contains("docker --context prod"));
    assert!(script("docker compose -p shop -f c.yml down").contains("compose -p shop -f c.yml ps"));
}
