//! Services, containers, clusters, clouds and packages.

use super::{any_word, danger, nth, opaque};
use crate::lexer::Word;
use crate::options::{StopPoint, has_option, is_listed, operands_of, parse, values_of};
use crate::program_call::ProgramCall;
use crate::state::State;

/// Units without which nobody gets in, or the machine does not hold together.
const VITAL: &str = "ssh sshd network networking networkmanager systemd-networkd systemd-resolved wpa_supplicant \
    firewalld ufw nftables iptables dbus dbus-broker systemd-logind systemd-journald \
    systemd-udevd getty@tty1 polkit fail2ban sssd multi-user.target graphical.target \
    default.target wg-quick@wg0 openvpn tailscaled netplan";

pub(super) fn check(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    match name {
        "systemctl" => systemctl(state, call),
        "service" | "rc-service" | "invoke-rc.d" | "update-rc.d" | "chkconfig" | "rc-update"
        | "launchctl" => {
            let vital = operands_of(call.arguments()).any(is_vital);
            if vital && !any_word(call.arguments(), &["status", "start"]) {
                danger(state, call, "touches a service that keeps the machine reachable");
            }
        }
        "docker" | "podman" | "nerdctl" => containers(state, call),
        "docker-compose" | "podman-compose" => compose(state, call, call.arguments()),
        "kubectl" | "oc" | "k3s" | "microk8s" => cluster(state, call),
        "helm" if matches!(nth(call.arguments(), 0), "uninstall" | "delete" | "rollback" | "del" | "un") => {
            danger(state, call, "removes a release")
        }
        "terraform" | "tofu" | "terragrunt" | "pulumi" | "vagrant" | "cdk" => {
            let destroys = any_word(
                call.arguments(),
                &["destroy", "-destroy", "down", "-auto-approve", "--yes", "taint", "force-unlock"],
            );
            if destroys || nth(call.arguments(), 0) == "state" {
                danger(state, call, "destroys or changes infrastructure unasked");
            }
        }
        "aws" | "gcloud" | "az" | "doctl" | "hcloud" | "gh" | "glab" | "linode-cli" | "openstack"
        | "virsh" | "lxc" | "incus" | "multipass" | "qm" | "pct" => cloud(state, call),
        _ => packages(state, call, name),
    }
    let text = call.words.first().map_or("", Word::text);
    if text.starts_with("/etc/init.d/")
        && is_vital_name(text.rsplit('/').next().unwrap_or(""))
        && nth(call.arguments(), 0) != "status"
    {
        danger(state, call, "touches a service that keeps the machine reachable");
    }
}

fn is_vital_name(unit: &str) -> bool {
    let unit = unit.to_lowercase();
    let unit = unit.trim_end_matches(".service").trim_end_matches(".socket");
    is_listed(VITAL, unit) || is_listed(VITAL, unit.split('@').next().unwrap_or(""))
}

fn is_vital(word: &Word) -> bool {
    word.literal().is_none() || is_vital_name(word.text())
}

fn systemctl(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    match nth(arguments, 0) {
        "reboot" | "poweroff" | "halt" | "kexec" | "suspend" | "hibernate" | "hybrid-sleep"
        | "soft-reboot" | "exit" | "rescue" | "emergency" | "isolate" | "switch-root" | "default" => {
            danger(state, call, "stops or restarts the machine")
        }
        "set-default" => danger(state, call, "changes how the machine boots"),
        "stop"
        | "disable"
        | "mask"
        | "kill"
        | "restart"
        | "reload"
        | "try-restart"
        | "reload-or-restart"
        | "revert"
        | "edit"
        | "freeze"
        | "condrestart"
        | "force-reload"
        | "try-reload-or-restart"
        | "clean"
        | "set-property"
            if operands_of(arguments).skip(1).any(is_vital) =>
        {
            danger(state, call, "touches a service that keeps the machine reachable");
        }
        "set-environment" | "import-environment" | "link" | "edit" => {
            opaque(state, call, "changes what services run")
        }
        _ => {}
    }
}

fn containers(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    let list = "-DHlcv: --context= --host= --debug --tls --config= --log-level=";
    let first = parse(list, arguments, StopPoint::FirstOperand).map_or(0, |parsed| parsed.first_operand);
    let rest = arguments.get(first..).unwrap_or(&[]);
    let (verb, second) = (nth(rest, 0), nth(rest, 1));
    let groups = [
        "system",
        "volume",
        "image",
        "container",
        "network",
        "builder",
        "buildx",
        "pod",
        "context",
        "swarm",
        "stack",
        "service",
        "node",
        "secret",
        "config",
    ];
    match (verb, second) {
        ("rm" | "rmi" | "prune", _) => danger(state, call, "removes containers or images"),
        (group, "prune" | "rm" | "remove" | "delete" | "leave" | "reset") if groups.contains(&group) => {
            danger(state, call, "removes containers, images or volumes");
        }
        ("compose", _) => compose(state, call, rest.get(1..).unwrap_or(&[])),
        ("run" | "create" | "exec", _) => inside(state, call, rest.get(1..).unwrap_or(&[])),
        ("container", "run" | "create" | "exec") => inside(state, call, rest.get(2..).unwrap_or(&[])),
        (_, _) => {}
    }
}

fn compose(state: &mut State, call: &ProgramCall<'_>, arguments: &[Word]) {
    let removes = any_word(arguments, &["rm", "kill"])
        || any_word(arguments, &["down"]) && has_option(arguments, "v", &["volumes", "rmi"]);
    if removes {
        danger(state, call, "removes containers or volumes");
    }
    if any_word(arguments, &["run", "exec"]) {
        opaque(state, call, "runs a command inside a container");
    }
}

/// `docker run IMAGE command…` and `docker exec NAME command…`.
fn inside(state: &mut State, call: &ProgramCall<'_>, arguments: &[Word]) {
    const LIST: &str = "-itdPqT -aceghlmpuvw: --rm --interactive --tty --detach --privileged --user= --workdir= --env= --env-file= \
         --name= --network= --net= --volume= --publish= --entrypoint= --mount= --pid= --ipc= --memory= --cpus= --restart= \
         --hostname= --label= --platform= --pull= --init --read-only --cap-add= --cap-drop= --security-opt= --device= --gpus= \
         --add-host= --dns= --link= --log-driver= --ulimit= --shm-size= --tmpfs= --userns= --detach-keys= --no-healthcheck";
    let texts: Vec<&str> = arguments.iter().map(Word::text).collect();
    let roots = texts.iter().any(|text| {
        let mount = text.trim_start_matches("-v").trim_start_matches("--volume=");
        mount.starts_with("/:")
            || text.contains("source=/,")
            || text.contains("src=/,")
            || text.contains("docker.sock")
    });
    let shares = [
        "--privileged",
        "--pid=host",
        "--net=host",
        "--network=host",
        "--ipc=host",
        "--userns=host",
        "--cap-add=ALL",
        "--cap-add=SYS_ADMIN",
    ];
    if roots || texts.iter().any(|text| shares.contains(text)) {
        danger(state, call, "gives a container the whole machine");
    }
    match parse(LIST, arguments, StopPoint::FirstOperand) {
        Some(parsed) => {
            if parsed.has("entrypoint") {
                opaque(state, call, "runs another program than the image names");
            }
            let inner = arguments.get(parsed.first_operand + 1..).unwrap_or(&[]);
            if !inner.is_empty() {
                call.judge_inner(state, inner, call.argument_source);
            }
        }
        None => opaque(state, call, "runs a command behind options that are not understood"),
    }
}

fn cluster(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    if any_word(arguments, &["delete", "drain", "destroy", "reset", "evict"]) {
        danger(state, call, "deletes from a cluster");
    }
    if any_word(arguments, &["replace", "apply"]) && has_option(arguments, "", &["force", "prune"]) {
        danger(state, call, "replaces or deletes in a cluster");
    }
    if any_word(arguments, &["scale"]) && arguments.iter().any(|word| word.text() == "--replicas=0") {
        danger(state, call, "stops a workload");
    }
    if any_word(arguments, &["exec", "run", "debug", "plugin"]) {
        let inner =
            arguments.iter().position(|word| word.text() == "--").and_then(|at| arguments.get(at + 1..));
        match inner {
            Some(inner) if !inner.is_empty() => call.judge_inner(state, inner, call.argument_source),
            Some(_) | None => opaque(state, call, "runs a command in a cluster"),
        }
    }
}

/// Cloud tools name what they do in their words: `terminate-instances`, `instances delete`, `s3 rm`.
fn cloud(state: &mut State, call: &ProgramCall<'_>) {
    const VERBS: &[&str] = &[
        "delete",
        "terminate",
        "destroy",
        "remove",
        "rm",
        "rb",
        "purge",
        "undefine",
        "deregister",
        "detach",
        "revoke",
        "stop-instances",
        "reset",
        "wipe",
    ];
    let hit = operands_of(call.arguments()).take(4).any(|word| {
        let text = word.text();
        VERBS.iter().any(|verb| text == *verb || text.starts_with(&format!("{verb}-")))
    });
    let exec = any_word(call.arguments(), &["exec", "ssh", "api", "extension", "alias", "codespace"]);
    if hit || any_word(call.arguments(), &["--delete"]) {
        danger(state, call, "deletes or stops what others may use");
    } else if exec {
        opaque(state, call, "runs a command elsewhere");
    }
}

fn packages(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    const CORE: &str = "openssh-server openssh sudo systemd linux-image linux-generic kernel libc6 glibc bash \
        coreutils dpkg apt rpm dnf network-manager networkmanager netplan.io ifupdown grub grub-pc \
        init udev login passwd";
    let arguments = call.arguments();
    let manages = is_listed("apt apt-get aptitude dnf yum zypper apk pacman dpkg rpm brew snap", name);
    if !manages {
        return;
    }
    let verbs = "remove purge autoremove autopurge erase del -r --remove -P --purge -e --erase";
    let removes = arguments.iter().any(|word| is_listed(verbs, word.text()))
        || (name == "pacman" && arguments.iter().any(|word| word.text().starts_with("-R")));
    let core = operands_of(arguments)
        .any(|word| is_listed(CORE, &word.text().to_lowercase()) || word.literal().is_none());
    if removes && core {
        danger(state, call, "removes a package that the machine needs");
    }
    let forces = [
        "force-yes",
        "allow-remove-essential",
        "force-all",
        "force-depends",
        "nodeps",
        "allow-unauthenticated",
        "no-gpg-checks",
        "nogpgcheck",
    ];
    if has_option(arguments, "", &forces) || arguments.iter().any(|word| word.text().starts_with("--force-"))
    {
        danger(state, call, "overrides what protects the system's packages");
    }
    if matches!(name, "apt" | "apt-get" | "aptitude")
        && has_option(arguments, "oc", &["option", "config-file"])
        && !is_harmless_option(arguments)
    {
        opaque(state, call, "sets options that may run programs");
    }
    if name == "rpm" && has_option(arguments, "ED", &["eval", "pipe", "define", "load"]) {
        opaque(state, call, "evaluates macros, which may run programs");
    }
}

/// `-o Dpkg::Options::=--force-conf…` and `-o DPkg::Lock::Timeout=…` are everyday.
fn is_harmless_option(arguments: &[Word]) -> bool {
    let values = values_of(arguments, 'o', "option");
    !values.is_empty()
        && values.iter().all(|value| {
            let value = value.to_lowercase();
            value.starts_with("dpkg::options::=--force-conf")
                || value.starts_with("dpkg::lock::timeout=")
                || value.starts_with("acquire::retries=")
        })
}
