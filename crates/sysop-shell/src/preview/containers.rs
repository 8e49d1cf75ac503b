//! Containers: `docker`, `podman` and `kubectl`.

use super::effective::EffectiveCommand;
use super::probe::{ProbeClass, SECONDS_SLOW, Section};
use super::scan::{Reason, Word};
use super::{Planned, View};

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let words: Option<Vec<String>> = command.arguments.iter().map(Word::literal).collect();
    let words = words.ok_or("the objects are not known before the command runs")?;
    if command.program == "kubectl" { kubectl(&words) } else { docker(&command.program, &words) }
}

fn docker(program: &str, words: &[String]) -> Result<Planned, Reason> {
    let names: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.as_str()));
    let head = format!(
        "command -v {program} >/dev/null || {{ r failed '{program} is not installed'; exit; }}\n{program} version >/dev/null || {{ r failed '{program} is not responding'; exit; }}\nd={program}\n"
    );
    let count = "n=$(";
    let (body, operands): (String, Vec<&str>) = match names.as_slice() {
        ["rm", rest @ ..] | ["container", "rm", rest @ ..] => (
            "for c do s=$($d inspect -f '{{.State.Status}} {{len .Mounts}}' -- \"$c\") || { r say \"there is no $c\"; continue; }; r say \"removes $c (${s% *}, mounts: ${s#* })\"; done\n".to_owned(),
            rest.to_vec(),
        ),
        ["stop" | "kill" | "restart", rest @ ..] => (
            "for c do s=$($d inspect -f '{{.State.Status}}' -- \"$c\") || { r say \"there is no $c\"; continue; }; r say \"$c is $s now\"; done\n".to_owned(),
            rest.to_vec(),
        ),
        ["rmi", rest @ ..] | ["image", "rm", rest @ ..] => (
            "for c do s=$($d image inspect -f '{{.Size}}' -- \"$c\") || { r say \"there is no $c\"; continue; }; r say \"removes image $c ($((s/1000000)) MB)\"; done\n".to_owned(),
            rest.to_vec(),
        ),
        ["volume", "rm", rest @ ..] => (
            "for c do $d volume inspect -- \"$c\" >/dev/null && r say \"removes volume $c with its data\" || r say \"there is no $c\"; done\n".to_owned(),
            rest.to_vec(),
        ),
        ["system" | "container" | "image" | "volume", "prune"] => (
            format!(
                "{count}$d ps -aq -f status=exited -f status=created | wc -l); r say \"stopped containers: $((n))\"\n{count}$d images -q -f dangling=true | wc -l); r say \"dangling images: $((n))\"\n{count}$d volume ls -q -f dangling=true | wc -l); r say \"unused volumes: $((n)){}\"\n",
                if has(&["--volumes"]) || names.first() == Some(&"volume") { " (removed)" } else { " (kept)" }
            ),
            Vec::new(),
        ),
        ["compose", "down"] if !has(&["-f", "-p"]) => (
            format!(
                "{count}$d compose ps -q | wc -l); r say \"stops and removes containers: $((n))\"\nv=$($d compose config --volumes | tr '\\n' ' '); [ \"$v\" ] && r say \"volumes {}: $v\"\n",
                if has(&["-v", "--volumes"]) { "removed" } else { "kept" }
            ),
            Vec::new(),
        ),
        ["run", ..] => {
            let risky = ["--privileged", "--net=host", "--network=host", "--pid=host"];
            let flags: Vec<&str> = risky.iter().copied().filter(|flag| has(&[flag])).collect();
            let root = words.iter().any(|word| word.starts_with("/:") || word.contains("=/:") || word.contains("docker.sock"));
            let root = if root { " and mounts paths of the host" } else { "" };
            return Ok(if flags.is_empty() && root.is_empty() {
                Planned::Nothing
            } else {
                let limits = if flags.is_empty() { "the usual limits".to_owned() } else { flags.join(" ") };
                Planned::Line(format!("the container runs with {limits}{root}"))
            });
        }
        _ => return Ok(Planned::Nothing),
    };
    let words = operands.iter().map(|word| Word::of(word)).collect();
    let mut section = Section::new(head + &body, View::Sentences).with_words(words);
    section.class = ProbeClass::Network;
    Planned::probe(section)
}

fn kubectl(words: &[String]) -> Result<Planned, Reason> {
    let names: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let Some(verb @ ("apply" | "delete" | "scale" | "drain" | "create" | "patch" | "rollout")) =
        names.first().copied()
    else {
        return Ok(Planned::Nothing);
    };
    let body = format!(
        "command -v kubectl >/dev/null || {{ r failed 'kubectl is not installed'; exit; }}\nc=$(kubectl config current-context) || {{ r failed 'kubectl has no current context'; exit; }}\nn=$(kubectl config view --minify -o 'jsonpath={{..namespace}}')\nr say \"{verb} in context $c, namespace ${{n:-default}}\"\n"
    );
    let mut section = Section::new(body, View::Sentences);
    section.class = ProbeClass::Network;
    section.seconds = SECONDS_SLOW;
    Planned::probe(section)
}
