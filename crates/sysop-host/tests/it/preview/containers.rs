//! Previews of `kubectl`, with the recorded output of a real one (1.32), and of `docker`, with that of a real one
//! (26.1).

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

/// Answers as the real program does, and notes its arguments. `c1` runs and `c2` has exited; of the volumes and images,
/// one each is used by nothing.
const DOCKER: &str = r#"#!/bin/sh
printf '%s\n' "$*" >>"${0%/*}/asked"
anonymous() { printf "$1%.0s" 0 1 2 3 4 5 6 7 8 9 a b c d e f 0 1 2 3 4 5 6 7 8 9 a b c d e f; echo; }
none() { echo "Error response from daemon: no such object" >&2; exit 1; }
case "$*" in
"--context prod "*) shift 2; exec "$0" "$@" ;;
"version -f {{.Server.APIVersion}}") cat "${0%/*}/api" ;;
version) echo 'Client: Docker Engine' ;;
"ps -a -q") printf 'c1\nc2\n' ;;
"ps -q") echo c1 ;;
"ps -aq -f status=exited -f status=created -f status=dead") echo c2 ;;
"inspect -f {{.Image}} -- c1") echo sha256:11 ;;
"inspect -f {{.Image}} -- c2") echo sha256:22 ;;
"inspect -f {{range .Mounts}}"*" -- c1") printf 'used\n\n' ;;
"inspect -f {{range .Mounts}}"*" -- c2") anonymous 2a; echo ;;
"inspect -f {{.State.Status}} {{len .Mounts}} -- c1") echo 'running 1' ;;
"inspect -f {{.State.Status}} {{len .Mounts}} -- c2") echo 'exited 1' ;;
"inspect -f {{.State.Status}} -- c1") echo running ;;
"image inspect -f {{.Size}} -- bb:x") echo 4261502 ;;
*"inspect "*" -- "*) none ;;
"images -q --no-trunc -f dangling=true") printf 'sha256:33\n' ;;
"images -q --no-trunc") printf 'sha256:11\nsha256:22\nsha256:33\nsha256:44\nsha256:44\n' ;;
"volume inspect -- used") echo '[]' ;;
"volume inspect -- "*) none ;;
"volume ls -q") anonymous 2a; anonymous 3b; printf 'used\nunused\n' ;;
"compose -p shop ps -aq" | "compose ps -aq" | "compose  ps -aq") printf 'c1\nc2\n' ;;
"compose -p shop config --volumes" | "compose config --volumes" | "compose  config --volumes") printf 'db\ndata\n' ;;
*) echo "$*" >>"${0%/*}/changed"; exit 1 ;;
esac
"#;

const DEV: &str = "in context dev, namespace default, on https://dev.example:6443";

/// A directory with a program that answers from a recording.
struct Recording(TempDir);

impl Recording {
    fn new(program: &str, text: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let tool = home.path().join(program);
        fs::write(&tool, text).unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        Self(home)
    }

    /// Asserts that the probes only asked.
    fn is_unchanged(&self) {
        let changed = fs::read_to_string(self.0.path().join("changed")).unwrap_or_default();
        assert_eq!(changed, "", "a probe only asks");
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
    let kubectl = Recording::new("kubectl", KUBECTL);
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
    kubectl.is_unchanged();
}

/// The question is asked before the approval: nothing that the command names may run, or get a token.
#[test]
fn kubectl_asks_no_server_that_the_command_names_and_runs_no_plugin() {
    let kubectl = Recording::new("kubectl", KUBECTL);
    for command in [
        "kubectl --kubeconfig evil delete pod web-1",
        "kubectl --kubeconfig=evil delete pod web-1",
        "kubectl -s https://evil.example delete pod web-1",
        "kubectl -shttps://evil.example delete pod web-1",
        "kubectl --token x delete pod web-1",
        "kubectl delete pod web-1 --cache-dir x",
        "kubectl -v 6 delete pod web-1",
        "kubectl --v=6 delete pod web-1",
        "kubectl -v6 delete pod web-1",
        "kubectl --kuberc evil delete pod web-1",
        "kubectl --as-uid 0 delete pod web-1",
        "kubectl --certificate-authority evil delete pod web-1",
        "kubectl --client-key evil --client-certificate evil delete pod web-1",
        "kubectl --tls-server-name evil.example delete pod web-1",
        "kubectl --profile-output evil --log-flush-frequency 1s --vmodule x=1 delete pod web-1",
        "kubectl delete pod web-1 --field-manager evil",
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

#[test]
fn docker_names_what_is_removed_and_counts_what_a_prune_removes() {
    let docker = Recording::new("docker", DOCKER);
    let volumes = |count: usize| format!("removes {count} volumes that no container uses, with their data");
    let stopped = "removes 1 stopped containers";
    let dangling = "removes 1 dangling images that no container uses";
    for (api, command, wanted) in [
        (
            "1.47",
            "docker rm -f c1 c2 nosuch",
            "removes c1 (running, mounts: 1); removes c2 (exited, mounts: 1); there is no nosuch".to_owned(),
        ),
        ("1.47", "docker stop c1 nosuch", "c1 is running now; there is no nosuch".to_owned()),
        ("1.47", "docker rmi bb:x nosuch", "removes image bb:x (4 MB); there is no nosuch".to_owned()),
        (
            "1.47",
            "docker volume rm used nosuch",
            "removes volume used with its data; there is no nosuch".to_owned(),
        ),
        ("1.47", "docker --context prod volume rm used", "removes volume used with its data".to_owned()),
        ("1.47", "docker container prune -f", stopped.to_owned()),
        ("1.47", "docker image prune -f", dangling.to_owned()),
        // What a stopped container uses stays: `image prune` does not remove the container.
        ("1.47", "docker image prune -a -f", "removes 2 images that no container uses".to_owned()),
        ("1.47", "docker volume prune -f", volumes(1)),
        ("1.47", "docker volume prune -a -f", volumes(2)),
        ("1.41", "docker volume prune -f", volumes(2)),
        ("1.47", "docker system prune -f", format!("{stopped}; {dangling}")),
        (
            "1.47",
            "docker system prune -af --volumes",
            format!("{stopped}; removes 3 images that no container uses; {}", volumes(2)),
        ),
        ("1.41", "docker system prune --volumes", format!("{stopped}; {dangling}; {}", volumes(3))),
        ("1.47", "docker compose down", "stops and removes 2 containers; volumes kept: db data".to_owned()),
        (
            "1.47",
            "docker compose -p shop down -v",
            "stops and removes 2 containers; volumes removed: db data".to_owned(),
        ),
    ] {
        fs::write(docker.0.path().join("api"), api).unwrap();
        assert_eq!(docker.preview(command), wanted, "{command} with API {api}");
    }
    docker.is_unchanged();
    for command in ["docker system prune --filter label=x", "docker volume prune --filter=label=x"] {
        assert_eq!(plan(command).and_then(|plan| plan.script(false).map(str::to_owned)), None, "{command}");
    }
}

#[test]
fn podman_prunes_volumes_with_names() {
    let podman = Recording::new("podman", DOCKER);
    fs::write(podman.0.path().join("api"), "1.47").unwrap();
    let wanted = "removes 2 volumes that no container uses, with their data";
    assert_eq!(podman.preview("podman volume prune -f"), wanted);
    podman.is_unchanged();
}
