//! Disks, power, processes, accounts, kernel and network: what takes a machine down or locks its people out.

use super::{any_word, danger, nth, opaque};
use crate::lexer::Word;
use crate::options::{has_option, is_listed, operands_of, options_of};
use crate::program_call::{ArgumentSource, ProgramCall};
use crate::read_only::is_read_only;
use crate::state::State;

pub(super) fn check(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    disks(state, call, name);
    power(state, call, name);
    processes(state, call, name);
    accounts(state, call, name);
    network(state, call, name);
    kernel(state, call, name);
}

fn disks(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    let lists = arguments.first().is_some_and(|word| is_listed("-l --list -x -d --dump", word.text()));
    let any = |list: &str| arguments.iter().any(|word| is_listed(list, word.text()));
    let formats = name == "mkfs" || name.starts_with("mkfs.") || name.starts_with("newfs");
    if formats || is_listed("mke2fs mkswap mkdosfs mkntfs mkudffs", name) {
        return danger(state, call, "makes a new file system over what is there");
    }
    let direct = "wipefs blkdiscard sgdisk badblocks fsck e2fsck resize2fs xfs_repair debugfs tune2fs growpart testdisk";
    let volumes = "lvremove vgremove pvremove lvreduce lvresize vgreduce pvcreate vgcfgrestore";
    let security = ["security-erase", "security-erase-enhanced", "trim-sector-ranges", "write-sector"];
    let why = match name {
        _ if is_listed(direct, name) => "changes a file system or a disk directly",
        _ if is_listed(volumes, name) => "changes volumes",
        "fdisk" | "sfdisk" | "cfdisk" | "gdisk" | "cgdisk" | "parted" if !lists => "changes partitions",
        "zpool" | "zfs" | "btrfs"
            if any("destroy delete labelclear rollback offline detach remove export") =>
        {
            "destroys a file system or a pool"
        }
        "mdadm" if has_option(arguments, "SCr", &["stop", "create", "zero-superblock", "remove", "fail"]) => {
            "changes a raid"
        }
        "cryptsetup" if any("luksFormat erase luksErase reencrypt luksKillSlot luksRemoveKey") => {
            "destroys an encrypted disk's keys"
        }
        "hdparm" if has_option(arguments, "", &security) => "destroys a disk's content",
        "nvme" if any("format sanitize write write-zeroes delete-ns") => "destroys a disk's content",
        "diskutil" if any("eraseDisk eraseVolume erasedisk secureErase partitionDisk apfs zeroDisk") => {
            "erases a disk"
        }
        "umount" | "swapoff" if any("-a --all / /home /var /usr") => "takes file systems away",
        "mount" if arguments.iter().any(|word| word.text().contains("remount")) => "mounts over the system",
        "mount" if nth(arguments, 1) == "/" => "mounts over the system",
        _ => return,
    };
    danger(state, call, why);
}

fn power(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    match name {
        "shutdown" if any_word(arguments, &["-c"]) => {}
        "shutdown" | "reboot" | "halt" | "poweroff" | "pm-suspend" | "pm-hibernate" | "kexec" => {
            danger(state, call, "stops or restarts the machine")
        }
        "init" | "telinit" if any_word(arguments, &["0", "1", "6", "s", "S", "single"]) => {
            danger(state, call, "stops or restarts the machine")
        }
        _ => {}
    }
}

fn processes(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    match name {
        "kill" => {
            let signal_apart =
                arguments.first().is_some_and(|word| matches!(word.text(), "-s" | "-n" | "--signal"));
            let first = arguments.first().map_or("", Word::text);
            let skip =
                if signal_apart { 2 } else { usize::from(first.starts_with('-') && arguments.len() > 1) };
            let targets = arguments.get(skip..).unwrap_or(&[]);
            if any_word(targets, &["1", "-1", "0", "-0"]) {
                danger(state, call, "kills every process or the first one");
            } else if arguments.iter().any(|word| word.expands) {
                opaque(state, call, "kills what is not written out");
            }
        }
        "killall5" => danger(state, call, "kills every process"),
        "pkill" | "killall" | "skill" | "slay" => {
            let vital = [
                "sshd",
                "ssh",
                "systemd",
                "init",
                "dbus-daemon",
                "systemd-logind",
                "networkmanager",
                "systemd-networkd",
                ".",
                ".*",
                "*",
                "",
            ];
            let hit = operands_of(arguments).any(|word| vital.contains(&word.text().to_lowercase().as_str()));
            if hit
                || options_of(arguments).any(|text| {
                    text.starts_with("-u") || text.starts_with("-U") || text == "--uid" || text == "--user"
                })
            {
                danger(state, call, "kills processes that hold the machine up");
            }
        }
        _ => {}
    }
    if call.argument_source == Some(ArgumentSource::Stdin)
        && matches!(name, "kill" | "chmod" | "chown" | "mv" | "truncate")
    {
        danger(state, call, "acts on whatever its input names");
    }
}

fn accounts(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let only_shows =
        any_word(call.arguments(), &["-S", "--status", "-l", "--list"]) && matches!(name, "passwd" | "chage");
    match name {
        "passwd" | "chage" if only_shows => {}
        "passwd" | "chpasswd" | "chage" | "usermod" | "userdel" | "deluser" | "groupdel" | "delgroup"
        | "groupmod" | "gpasswd" | "vipw" | "vigr" | "chsh" | "chfn" | "pwconv" | "pwunconv" | "grpconv"
        | "faillock" | "pam-auth-update" | "authselect" | "realm" | "dscl" | "sysadminctl" => {
            danger(state, call, "changes accounts or passwords")
        }
        "visudo" | "sudoedit" => danger(state, call, "edits who may do what"),
        "crontab" if !any_word(call.arguments(), &["-l"]) => {
            danger(state, call, "replaces or removes scheduled commands")
        }
        "at" | "batch" | "atrm" => opaque(state, call, "schedules commands"),
        _ => {}
    }
}

fn network(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    let reads_only = is_read_only(name, call.words, false);
    match name {
        "iptables"
        | "ip6tables"
        | "ebtables"
        | "arptables"
        | "nft"
        | "ufw"
        | "firewall-cmd"
        | "pfctl"
        | "ipset"
        | "iptables-restore"
        | "ip6tables-restore"
        | "iptables-legacy"
        | "iptables-nft"
        | "shorewall"
        | "fail2ban-client"
        | "firewall-offline-cmd"
        | "csf"
        | "netsh"
            if !reads_only =>
        {
            danger(state, call, "changes the firewall");
        }
        "ip" if !reads_only => {
            let words = [
                "set", "del", "delete", "flush", "replace", "change", "d", "f", "down", "-b", "-batch",
                "-force", "add", "a",
            ];
            let netns = any_word(arguments, &["netns", "vrf"]);
            if netns {
                opaque(state, call, "acts in another network namespace");
                if let Some(at) = arguments.iter().position(|word| word.text() == "exec") {
                    let inner = arguments.get(at + 2..).unwrap_or(&[]);
                    call.judge_inner(state, inner, call.argument_source);
                }
            } else if any_word(arguments, &words) {
                danger(state, call, "changes addresses, routes or links");
            }
        }
        "ifconfig" if !reads_only && operands_of(arguments).count() > 1 => {
            danger(state, call, "changes addresses or links")
        }
        "route" if any_word(arguments, &["add", "del", "delete", "flush", "change"]) => {
            danger(state, call, "changes routes")
        }
        "ifdown" | "ifup" | "dhclient" | "wpa_cli" => danger(state, call, "changes the network"),
        "ethtool" if options_of(arguments).next().is_some() => danger(state, call, "changes the network"),
        "nmcli"
            if any_word(
                arguments,
                &["down", "delete", "modify", "off", "disconnect", "edit", "reload", "mod", "del"],
            ) =>
        {
            danger(state, call, "changes the network")
        }
        "netplan" if any_word(arguments, &["apply", "try", "set", "rebind"]) => {
            danger(state, call, "changes the network")
        }
        "networksetup" | "wg-quick" | "tc" | "brctl" | "ovs-vsctl"
            if !any_word(arguments, &["show", "-s"]) =>
        {
            danger(state, call, "changes the network")
        }
        _ => {}
    }
}

fn kernel(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    match name {
        "insmod" | "rmmod" => danger(state, call, "changes the running kernel"),
        "modprobe" if has_option(arguments, "r", &["remove"]) => {
            danger(state, call, "changes the running kernel")
        }
        "setenforce" | "aa-disable" | "aa-teardown" | "semodule" => {
            danger(state, call, "switches protection off")
        }
        "update-grub" | "grub-install" | "grub2-install" | "grub-mkconfig" | "grub2-mkconfig"
        | "update-initramfs" | "dracut" | "efibootmgr" | "bootctl" | "mkinitcpio" => {
            danger(state, call, "changes how the machine boots")
        }
        "sysctl"
            if arguments.iter().any(|word| {
                word.text().contains("kernel.core_pattern") || word.text().contains("modprobe")
            }) =>
        {
            danger(state, call, "changes the running kernel");
        }
        _ => {}
    }
}
