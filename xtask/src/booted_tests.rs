//! Runs the tests of guards and previews on a system that was booted with systemd. Must run as root.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::booted::{BootedSystem, Network};
use crate::setup;
use crate::workspace::{cargo, step, target};

const MIRROR: &str = "http://deb.debian.org/debian";
const SUITE: &str = "bookworm";
/// Packages of the system: an ssh server, and the programs whose configuration the tests change.
const PACKAGES: &str = "systemd-sysv,dbus,libpam-systemd,openssh-server,sudo,nftables,iptables,iproute2,ifupdown,netplan.io,\
    network-manager,ufw,firewalld,procps,psmisc,passwd,cron,git,rsync,e2fsprogs";
/// Address of the client on its virtual link to the system, from a range reserved for documentation.
const CLIENT: &str = "192.0.2.1";
const SYSTEM: &str = "192.0.2.2";
/// Script that adds users and the key, and disables the services that would configure the network.
const PREPARE: &str = "useradd -m -s /bin/bash ann; useradd -m -s /bin/bash bob
    echo 'ann ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ann; chmod 440 /etc/sudoers.d/ann
    for h in root home/ann home/bob; do mkdir -p /$h/.ssh; cp /tmp/key.pub /$h/.ssh/authorized_keys; chmod 700 /$h/.ssh; done
    chown -R ann:ann /home/ann/.ssh; chown -R bob:bob /home/bob/.ssh; rm -f /etc/network/interfaces
    echo sysop-test >/etc/hostname; echo '127.0.0.1 localhost sysop-test' >/etc/hosts
    systemctl disable NetworkManager NetworkManager-wait-online systemd-networkd ufw firewalld";

/// Network of the client, ended on drop.
struct ClientNetwork(Child);

impl Drop for ClientNetwork {
    fn drop(&mut self) {
        // The process may have ended; either way nothing is left to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates and boots the system, and runs the tests.
pub(crate) fn run() -> Result<()> {
    setup::need(&[
        ("debootstrap", "debootstrap"),
        ("systemd-nspawn", "systemd-container"),
        ("ip", "iproute2"),
    ])?;
    let folder = target().join("booted");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the last system")?;
    }
    fs::create_dir_all(&folder).context("cannot create a folder for the system")?;
    let files = folder.join("root");
    let mut bootstrap = Command::new("debootstrap");
    bootstrap.arg("--variant=minbase").arg(format!("--include={}", PACKAGES.replace(' ', ""))).arg(SUITE);
    bootstrap.arg(&files).arg(MIRROR).stdout(fs::File::create("/dev/null")?);
    step("create a system with systemd (as root)", &mut bootstrap)?;
    let mut keygen = Command::new("ssh-keygen");
    step("create a key", keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join("key")))?;
    fs::copy(folder.join("key.pub"), files.join("tmp/key.pub")).context("cannot copy the key")?;
    step("prepare the system", Command::new("chroot").arg(&files).args(["sh", "-c", PREPARE]))?;
    let system = BootedSystem::boot(&files, Network::Own)?;
    let client = connect(&system)?;
    write_config(&folder, &files, client.0.id())?;
    fs::write(folder.join("leader"), system.leader().to_string()).context("cannot write a process id")?;
    let mut tests = cargo();
    tests.args(["test", "--package", "sysop-host", "--test", "it", "--locked", "booted"]);
    step("tests on a booted system", tests.env("SYSOP_BOOTED", &folder))?;
    drop(system);
    fs::remove_dir_all(&folder).context("cannot remove the system")
}

/// Creates a network namespace for the client, and connects it to the system.
fn connect(system: &BootedSystem) -> Result<ClientNetwork> {
    let mut client = Command::new("unshare");
    client.args(["--net", "sh", "-c", "ip link set lo up; echo made; exec cat >/dev/null"]);
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut said = String::new();
    let printed = client.stdout.take().context("it was started with a pipe")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(printed), &mut said)?;
    let client = ClientNetwork(client);
    ensure!(said == "made\n", "cannot create the network of the client");
    let (near, far) = (client.0.id().to_string(), system.leader().to_string());
    let ip = |process: &str, arguments: &str| {
        let mut ip = Command::new("nsenter");
        ip.args(["-t", process, "-n", "ip"]).args(arguments.split(' '));
        step(&format!("ip {arguments}"), &mut ip)
    };
    ip(&far, &format!("link add host0 type veth peer name near netns {near}"))?;
    ip(&near, &format!("addr add {CLIENT}/24 dev near"))?;
    ip(&near, "link set near up")?;
    ip(&far, &format!("addr add {SYSTEM}/24 brd + dev host0"))?;
    ip(&far, "link set host0 up")?;
    ip(&far, &format!("route add default via {CLIENT}"))?;
    Ok(client)
}

fn write_config(folder: &Path, files: &Path, client: u32) -> Result<()> {
    let key =
        fs::read_to_string(files.join("etc/ssh/ssh_host_ed25519_key.pub")).context("there is no host key")?;
    fs::write(folder.join("known_hosts"), format!("{SYSTEM} {key}"))?;
    let at = folder.display();
    let users = "Host box\n  User root\nHost boxann\n  User ann\nHost boxbob\n  User bob\n";
    let text = format!(
        "{users}Host *\n  HostName {SYSTEM}\n  IdentityFile {at}/key\n  IdentitiesOnly yes\n  IdentityAgent none\n  \
         UserKnownHostsFile {at}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  \
         ProxyCommand nsenter -t {client} -n busybox nc %h %p\n"
    );
    fs::write(folder.join("ssh_config"), text).context("cannot write a config for ssh")
}
