//! Containers: `docker`, `podman` and `kubectl`.

use super::effective::EffectiveCommand;
use super::probe::{ProbeClass, SECONDS_SLOW, Section};
use super::scan::{Reason, Word, quoted};
use super::{Planned, View};

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let words: Option<Vec<String>> = command.arguments.iter().map(Word::literal).collect();
    let words = words.ok_or("the objects are not known before the command runs")?;
    if command.program == "kubectl" { kubectl(&words) } else { docker(&command.program, &words) }
}

/// Options of subcommands of `docker` that take a value as the next word.
const DOCKER_VALUES: [&str; 5] = ["--filter", "--time", "--timeout", "--signal", "-t"];

/// Splits the words of a command into the options before the subcommand that a probe repeats, and the subcommand with
/// its operands.
///
/// A probe runs before the approval, so it repeats only the name of a context, which the user has set up. Other options
/// name a config, a server, or programs to run.
fn docker_words<'a>(program: &str, words: &'a [String]) -> Result<(Vec<&'a str>, Vec<&'a str>), Reason> {
    let (mut options, mut names) = (Vec::new(), Vec::new());
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if !word.starts_with('-') {
            names.push(word);
        } else if !names.is_empty() {
            if DOCKER_VALUES.contains(&word) {
                rest.next();
            }
        } else if program == "docker" && matches!(word, "-c" | "--context") {
            options.push(word);
            options.extend(rest.next());
        } else if program == "docker" && word.starts_with("--context=") {
            options.push(word);
        } else {
            return Err(format!("{program} runs with {word}"));
        }
    }
    Ok((options, names))
}

fn docker(program: &str, words: &[String]) -> Result<Planned, Reason> {
    let (options, names) = docker_words(program, words)?;
    let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.as_str()));
    let options: Vec<String> = options.into_iter().map(quoted).collect();
    let head = format!(
        "d() {{ {program} {} \"$@\"; }}\ncommand -v {program} >/dev/null || {{ r failed '{program} is not installed'; exit; }}\nd version >/dev/null || {{ r failed '{program} is not responding'; exit; }}\n",
        options.join(" ")
    );
    let (body, operands): (String, Vec<&str>) = match names.as_slice() {
        ["rm", rest @ ..] | ["container", "rm", rest @ ..] => (
            "for c do s=$(d inspect -f '{{.State.Status}} {{len .Mounts}}' -- \"$c\") || { r say \"there is no $c\"; continue; }; r say \"removes $c (${s% *}, mounts: ${s#* })\"; done\n".to_owned(),
            rest.to_vec(),
        ),
        ["stop" | "kill" | "restart", rest @ ..] | ["container", "stop" | "kill" | "restart", rest @ ..] => (
            "for c do s=$(d inspect -f '{{.State.Status}}' -- \"$c\") || { r say \"there is no $c\"; continue; }; r say \"$c is $s now\"; done\n".to_owned(),
            rest.to_vec(),
        ),
        ["rmi", rest @ ..] | ["image", "rm", rest @ ..] => (
            "for c do s=$(d image inspect -f '{{.Size}}' -- \"$c\") || { r say \"there is no $c\"; continue; }; r say \"removes image $c ($((s/1000000)) MB)\"; done\n".to_owned(),
            rest.to_vec(),
        ),
        ["volume", "rm", rest @ ..] => (
            "for c do d volume inspect -- \"$c\" >/dev/null && r say \"removes volume $c with its data\" || r say \"there is no $c\"; done\n".to_owned(),
            rest.to_vec(),
        ),
        [kind @ ("system" | "container" | "image" | "volume"), "prune"] => {
            if words.iter().any(|word| word == "--filter" || word.starts_with("--filter=")) {
                return Err(format!("{program} applies its filter"));
            }
            let all = has(&["-a", "--all", "-af", "-fa"]);
            (prune(program, kind, all, has(&["--volumes"])), Vec::new())
        }
        ["compose", .., "down"] => (compose_down(program, words, has(&["-v", "--volumes"]))?, Vec::new()),
        ["run", ..] => return Ok(docker_run(words)),
        _ => return Ok(Planned::Nothing),
    };
    let words = operands.iter().map(|word| Word::of(word)).collect();
    let mut section = Section::new(head + &body, View::Sentences).with_words(words);
    section.class = ProbeClass::Network;
    Planned::probe(section)
}

/// Returns the part of a probe that counts what `prune` removes.
fn prune(program: &str, kind: &str, all: bool, volumes: bool) -> String {
    // `docker system prune` removes stopped containers first, so that they use nothing any more.
    let users = if kind == "system" { "" } else { "-a" };
    let mut body =
        format!("keeps() {{ d ps {users} -q | while read -r c; do d inspect -f \"$1\" -- \"$c\"; done; }}\n");
    if matches!(kind, "system" | "container") {
        body.push_str("n=$(d ps -aq -f status=exited -f status=created -f status=dead | wc -l); r say \"removes $((n)) stopped containers\"\n");
    }
    if matches!(kind, "system" | "image") {
        let (filter, name) = if all { ("", "images") } else { ("-f dangling=true", "dangling images") };
        body.push_str(&format!(
            "u=$(keeps '{{{{.Image}}}}' | sed 's/^sha256://')\n\
             n=$(d images -q --no-trunc {filter} | sed 's/^sha256://' | sort -u | grep -cvxF -e \"${{u:-none}}\"); r say \"removes $((n)) {name} that no container uses\"\n"
        ));
    }
    if kind == "volume" || volumes {
        // Since 1.42 of its API, docker removes only volumes without a name, unless it is told `--all`.
        let old = "a=$(d version -f '{{.Server.APIVersion}}'); [ \"${a#1.}\" -lt 42 ] && m=.\n";
        let (pattern, old) = match program {
            "docker" if !(all && kind == "volume") => ("'^[0-9a-f]{64}$'", old),
            _ => (".", ""),
        };
        body.push_str(&format!(
            "m={pattern}\n{old}u=$(keeps '{{{{range .Mounts}}}}{{{{.Name}}}}{{{{\"\\n\"}}}}{{{{end}}}}')\n\
             n=$(d volume ls -q | grep -E \"$m\" | grep -cvxF -e \"${{u:-none}}\"); r say \"removes $((n)) volumes that no container uses, with their data\"\n"
        ));
    }
    body
}

/// Returns the part of a probe that counts what `compose down` removes. Between these words, only the names of a
/// project and of local files are repeated, and what the files include from elsewhere is not fetched.
fn compose_down(program: &str, words: &[String], volumes: bool) -> Result<String, Reason> {
    let mut between = words
        .iter()
        .map(String::as_str)
        .skip_while(|word| *word != "compose")
        .skip(1)
        .take_while(|word| *word != "down");
    let mut options = Vec::new();
    while let Some(option) = between.next() {
        let value = between.next().filter(|value| !value.contains("://"));
        let Some(value) = value.filter(|_| matches!(option, "-p" | "--project-name" | "-f" | "--file"))
        else {
            return Err(format!("{program} compose runs with {option}"));
        };
        options.extend([option.to_owned(), quoted(value)]);
    }
    let options = options.join(" ");
    Ok(format!(
        "export COMPOSE_EXPERIMENTAL_GIT_REMOTE=false COMPOSE_EXPERIMENTAL_OCI_REMOTE=false\nn=$(d compose {options} ps -aq | wc -l); r say \"stops and removes $((n)) containers\"\nv=$(d compose {options} config --volumes | tr '\\n' ' '); [ \"$v\" ] && r say \"volumes {}: $v\"\n:\n",
        if volumes { "removed" } else { "kept" }
    ))
}

fn docker_run(words: &[String]) -> Planned {
    let risky = ["--privileged", "--net=host", "--network=host", "--pid=host"];
    let flags: Vec<&str> =
        risky.iter().copied().filter(|flag| words.iter().any(|word| word == flag)).collect();
    let is_root =
        |word: &String| word.starts_with("/:") || word.contains("=/:") || word.contains("docker.sock");
    let root = if words.iter().any(is_root) { " and mounts paths of the host" } else { "" };
    if flags.is_empty() && root.is_empty() {
        return Planned::Nothing;
    }
    let flags = if flags.is_empty() { "the usual limits".to_owned() } else { flags.join(" ") };
    Planned::Line(format!("the container runs with {flags}{root}"))
}

/// Options of `kubectl` that take a value as the next word.
const KUBECTL_VALUES: [&str; 68] = [
    // Of every subcommand, as `kubectl options` lists them, and those of older versions.
    "-n",
    "--namespace",
    "--context",
    "--cluster",
    "--user",
    "--kubeconfig",
    "--kuberc",
    "-s",
    "--server",
    "--as",
    "--as-group",
    "--as-uid",
    "--as-user-extra",
    "--token",
    "--username",
    "--password",
    "--request-timeout",
    "--cache-dir",
    "--certificate-authority",
    "--client-certificate",
    "--client-key",
    "--tls-server-name",
    "--profile",
    "--profile-output",
    "-v",
    "--v",
    "--vmodule",
    "--log-flush-frequency",
    "--log-backtrace-at",
    "--log-dir",
    "--log-file",
    "--log-file-max-size",
    "--stderrthreshold",
    // Of the subcommands that are previewed.
    "-f",
    "--filename",
    "-k",
    "--kustomize",
    "-l",
    "--selector",
    "--field-selector",
    "--pod-selector",
    "-o",
    "--output",
    "-p",
    "--patch",
    "--patch-file",
    "--type",
    "--subresource",
    "--replicas",
    "--current-replicas",
    "--resource-version",
    "--grace-period",
    "--timeout",
    "--field-manager",
    "--prune-allowlist",
    "--raw",
    "--template",
    "--chunk-size",
    "--skip-wait-for-delete-timeout",
    "--revision",
    "--to-revision",
    "--image",
    "--port",
    "--from-literal",
    "--from-file",
    "--from-env-file",
    "--tcp",
    "--schedule",
];
/// Options that choose the server, the namespace and the user.
const KUBECTL_PLACES: [&str; 10] = [
    "-n", "--namespace", "--context", "--cluster", "--user", "--kubeconfig", "-s", "--server", "--as",
    "--as-group",
];
/// Options with a value with which the server is asked about the effect. The question is asked before the approval, so
/// each other option prevents it: it may name a server, a config that runs programs, or files to fetch.
const KUBECTL_ASKED_VALUES: [&str; 16] = [
    "-n", "--namespace", "--context", "--as", "--as-group", "-f", "--filename", "-l", "--selector",
    "--field-selector", "-p", "--patch", "--type", "--replicas", "--grace-period", "--timeout",
];
/// The same for options without a value.
const KUBECTL_ASKED_FLAGS: [&str; 13] = [
    "-A", "--all-namespaces", "--all", "--force", "--now", "--wait", "--wait=false", "--ignore-not-found",
    "--ignore-daemonsets", "--delete-emptydir-data", "--server-side", "-R", "--recursive",
];
/// Kinds that `kubectl create` knows. Another one may be the name of a plugin, which it would run.
const KUBECTL_CREATED: [&str; 27] = [
    "clusterrole", "clusterrolebinding", "configmap", "cm", "cronjob", "cj", "deployment", "deploy",
    "ingress", "ing", "job", "namespace", "ns", "poddisruptionbudget", "pdb", "priorityclass", "pc", "quota",
    "resourcequota", "role", "rolebinding", "secret", "service", "svc", "serviceaccount", "sa", "token",
];

/// Words of a `kubectl` command by their meaning.
#[derive(Default)]
struct KubectlWords<'a> {
    names: Vec<&'a str>,
    /// Options that choose the place, with their values.
    places: Vec<&'a str>,
    /// Names of all options.
    options: Vec<&'a str>,
    /// An option with which the server is not asked about the effect.
    unasked: Option<&'a str>,
    /// Values of options that name files.
    files: Vec<&'a str>,
    namespace: Option<&'a str>,
}

impl KubectlWords<'_> {
    /// Returns a word of the script that describes the namespace.
    fn namespace(&self) -> String {
        if self.options.iter().any(|option| ["-A", "--all-namespaces"].contains(option)) {
            return "'all namespaces'".to_owned();
        }
        match self.namespace {
            Some(name) => quoted(&format!("namespace {name}")),
            None => "\"namespace ${n:-default}\"".to_owned(),
        }
    }
}

fn kubectl_words(words: &[String]) -> KubectlWords<'_> {
    let mut found = KubectlWords::default();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if !word.starts_with('-') {
            found.names.push(word);
            continue;
        }
        let (option, joined) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            // Short options may have the value in the same word: `-nshop`.
            None if !word.starts_with("--") && word.len() > 2 => {
                (word.get(..2).unwrap_or(word), word.get(2..))
            }
            None => (word, None),
        };
        found.options.push(option);
        if !KUBECTL_ASKED_VALUES.contains(&option) && !KUBECTL_ASKED_FLAGS.contains(&word) {
            found.unasked = Some(option);
        }
        let takes_value = KUBECTL_VALUES.contains(&option);
        let value = joined.or_else(|| if takes_value { rest.next() } else { None });
        if KUBECTL_PLACES.contains(&option) {
            found.places.push(word);
            found.places.extend(value.filter(|_| joined.is_none()));
        }
        if ["-n", "--namespace"].contains(&option) {
            found.namespace = value;
        }
        if ["-f", "--filename", "-k", "--kustomize"].contains(&option) {
            found.files.extend(value);
        }
    }
    found
}

/// Asks the server what would happen. `$@` is the whole command.
const KUBECTL_EFFECT: &str = r#"
o=$(kubectl "$@" --dry-run=server --request-timeout=8s 2>&1 </dev/null)
printf '%s\n' "$o" | sed -n -e 's/ (server dry run)$//p' -e '/ patched$/p' | awk '
{v=""; for (i=NF; i>1; i--) if ($i ~ /^(created|configured|unchanged|deleted|scaled|patched|cordoned|uncordoned|drained)$/) {v=$i; break}
if ($1=="evicting") {v="evicted"; w=$3} else {w=$1; if ($2 ~ /^"/) {w=$1 "/" $2; gsub(/"/,"",w)}}
if (v=="" || v=="drained") next; if (!(v in n)) order[++k]=v; if (++n[v]<=3) s[v]=s[v] (n[v]>1 ? ", " : "") w}
END {for (i=1; i<=k; i++) {v=order[i]; print n[v] " " v ": " s[v] (n[v]>3 ? " and " n[v]-3 " more" : "")}}' | while IFS= read -r l; do r say "$l"; done
e=$(printf '%s\n' "$o" | grep -iE '^(error|unable to connect|the connection to the server)' | head -n 1); [ "$e" ] && r say "the server answers: $e"
:
"#;

fn kubectl(words: &[String]) -> Result<Planned, Reason> {
    let found = kubectl_words(words);
    let Some(
        verb @ ("apply" | "delete" | "scale" | "drain" | "cordon" | "uncordon" | "create" | "patch"
        | "replace" | "rollout"),
    ) = found.names.first().copied()
    else {
        return Ok(Planned::Nothing);
    };
    if found.options.contains(&"--dry-run") {
        return Ok(Planned::Nothing);
    }
    let places: Vec<String> = found.places.iter().map(|word| quoted(word)).collect();
    let mut body = format!(
        "command -v kubectl >/dev/null || {{ r failed 'kubectl is not installed'; exit; }}\n\
         v=$(kubectl {} config view --minify -o 'jsonpath={{.contexts[0].name}}{{\"\\n\"}}{{..namespace}}{{\"\\n\"}}{{..server}}') || {{ r failed 'kubectl has no current context'; exit; }}\n\
         {{ read -r c; read -r n; read -r u; }} <<E\n$v\nE\n\
         s={}; r say \"{verb} in context $c, $s, on $u\"\n",
        places.join(" "),
        found.namespace(),
    );
    // Standard input is the command's own, and files of other machines are not fetched for a preview.
    let reads_here = found.files.iter().all(|file| *file != "-" && !file.contains("://"));
    let creates_known =
        verb != "create" || found.names.get(1).is_none_or(|kind| KUBECTL_CREATED.contains(kind));
    let asks_server = reads_here && creates_known && verb != "rollout" && found.unasked.is_none();
    if asks_server {
        body.push_str(KUBECTL_EFFECT);
    }
    let words = words.iter().map(|word| Word::of(word)).collect();
    let mut section = Section::new(body, View::Sentences).with_words(words);
    section.class = ProbeClass::Network;
    section.seconds = SECONDS_SLOW;
    Planned::probe(section)
}
