//! Programs that overwrite a device, change mounts or remove volumes.

use super::effective::{EffectiveCommand, split};
use super::probe::{Records, Section};
use super::report::{Report, name};
use super::scan::{Reason, Word};
use super::{Planned, View};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskAction {
    Overwrite,
    Format,
    Erase,
}

/// Defines `mounts DEVICE`, which prints where a device is mounted, with the file system. `DEVICE` is resolved; the
/// table is resolved once, because each of many volumes is looked up in it.
const MOUNTS: &str = r#"
M=$(while read -r a m t _; do case $a in /*) printf '%s %s %s\n' "$(readlink -f "$a")" "$m" "$t";; esac; done </proc/mounts)
mounts() { printf '%s\n' "$M" | while read -r a m t; do [ "$a" = "$1" ] && printf '%s %s\n' "$m" "$t"; done; }
"#;

/// Prints the size and content of device `$1`, its partitions, and the mounts, swap space and other devices that use
/// it. `$v` is the verb of the first line.
const DEVICE: &str = r#"
d=$1; case $d in -*) d=./$d;; esac
if [ -b "$d" ]; then
x=$(readlink -f "$d"); s=$(cat "/sys/class/block/${x##*/}/size"); i=$(lsblk -dno FSTYPE,LABEL "$d" | tr -s ' ')
case $i in *[!\ ]*) ;; *) i="$(blkid -p -o value -s TYPE "$d") $(blkid -p -o value -s LABEL "$d")";; esac
g="$(( ${s:-0} / 1953125 )) GB"; [ "${s:-0}" -ge 19531250 ] || g="$(( ${s:-0} * 512 / 1000000 )) MB"
r say "$v $d: $g ${i:-}"
mounts "$x" | while read -r m t; do r say "MOUNTED on $m ($t)"; done
for h in /sys/class/block/"${x##*/}"/holders/* /sys/class/block/"${x##*/}"/"${x##*/}"*; do [ -e "$h" ] || continue
case $h in */holders/*) r say "used by ${h##*/}";; *) r say "has partition ${h##*/}$(awk -v d="/dev/${h##*/}" '$1==d{print " MOUNTED on " $2}' /proc/mounts)";; esac; done
awk -v d="$d" '$1==d{exit 1}' /proc/swaps || r say 'in use as swap'
elif [ -e "$d" ]; then r say "$v the file $d, $(stat -Lc %s "$d") bytes"
elif parent "$d"; then r say "creates $d"; else r say "fails: $why"; fi
"#;

/// Describes the logical volumes `$@`, or those of a volume group, and where they are mounted.
const VOLUMES: &str = r#"command -v lvs >/dev/null || { r failed 'lvm is not installed'; exit; }
for p do lvs --readonly --noheadings -o lv_path,lv_size,origin -- "$p"; done | { n=
while read -r l s o; do [ "$l" ] || continue; n=1; r say "$v: $l $s${o:+ snapshot of $o}"
mounts "$(readlink -f "$l")" | while read -r m _; do r say "$l is MOUNTED on $m"; done; done
[ "$n" ] || r say 'there is no such volume'; }
"#;

/// Describes the volume groups `$@`, and where their volumes are mounted.
const VOLUME_GROUPS: &str = r#"command -v vgs >/dev/null || { r failed 'lvm is not installed'; exit; }
for p do s=$(vgs --readonly --noheadings -o vg_size,lv_count -- "$p") || { r say "there is no volume group $p"; continue; }
set -- $s; r say "$v: $p, $1, logical volumes: $2"
lvs --readonly --noheadings -o lv_path -- "$p" | while read -r l; do
mounts "$(readlink -f "$l")" | while read -r m _; do r say "$l is MOUNTED on $m"; done; done; done
"#;

/// Returns true if the path names a block device.
pub(super) fn is_disk(path: &str) -> bool {
    let Some(name) = path.strip_prefix("/dev/") else { return false };
    let kinds = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "md", "dm-", "loop", "mapper/", "disk/"];
    kinds.iter().any(|kind| name.starts_with(kind))
}

pub(super) fn section(device: Word, action: DiskAction) -> Section {
    let verb = match action {
        DiskAction::Overwrite => "overwrites",
        DiskAction::Format => "formats",
        DiskAction::Erase => "erases the signatures of",
    };
    Section::new(format!("v='{verb}'{MOUNTS}{DEVICE}"), View::Sentences).with_scalars(vec![device])
}

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let unclear = || "the device is unknown".to_owned();
    match command.program.as_str() {
        "dd" => {
            let value = |name: &str| command.arguments.iter().find(|word| word.beginning().starts_with(name));
            let Some(output) = value("of=").and_then(|word| word.without_beginning(3)) else {
                return Ok(Planned::Nothing);
            };
            if !output.is_single() {
                return Err(unclear());
            }
            Planned::probe(section(output, DiskAction::Overwrite))
        }
        "mount" => {
            let found = split(
                &command.arguments,
                "rwavn",
                "toTL",
                &["bind", "all", "read-only", "options=", "types="],
            )?;
            let Some(at) = found.operands.last().filter(|word| word.is_single()) else {
                return Err(unclear());
            };
            let body = r#"p=$1; m=; while read -r a b _; do [ "$b" = "$p" ] && m=$a; done </proc/mounts
if [ "$m" ]; then r say "$m is mounted on $p already"; elif [ -d "$p" ]; then if find "$p" -mindepth 1 -maxdepth 1 | grep -q .; then r say "hides the current content of $p"; else r say "mounts on $p, which is empty"; fi; else r say "$p: no such mount point, or a device"; fi
"#;
            Planned::probe(Section::new(body, View::Sentences).with_scalars(vec![at.clone()]))
        }
        "umount" => {
            let found = split(&command.arguments, "lfRvn", "", &["lazy", "force", "recursive"])?;
            let body = r#"for p do q=$(readlink -f "$p"); m=; while read -r a b t _; do { [ "$b" = "$q" ] || [ "$a" = "$p" ]; } && m=$b; done </proc/mounts
[ "$m" ] || { r say "$p is not mounted"; continue; }
n=0; for c in /proc/[0-9]*; do case $(readlink "$c/cwd")/ in "${m%/}"/*) n=$((n+1)); continue;; esac; for f in "$c"/fd/*; do case $(readlink "$f") in "${m%/}"/*) n=$((n+1)); break;; esac; done; done
r say "unmounts $m; processes that use it: $n"; done
"#;
            Planned::probe(Section::new(body, View::Sentences).with_words(found.operands))
        }
        "lvremove" | "vgremove" | "lvreduce" => {
            let found =
                split(&command.arguments, "fyrv", "Ll", &["force", "yes", "resizefs", "size=", "extents="])?;
            let list = if command.program == "vgremove" { VOLUME_GROUPS } else { VOLUMES };
            let body = format!("v={}{MOUNTS}{list}", command.program);
            Planned::probe(Section::new(body, View::Sentences).with_words(found.operands))
        }
        "wipefs" => {
            let found = split(&command.arguments, "afnq", "t", &["all", "force", "no-act"])?;
            let [device] = found.operands.as_slice() else { return Err(unclear()) };
            if !found.has(&["a", "-all"]) || found.has(&["n", "-no-act"]) {
                return Ok(Planned::Nothing);
            }
            Planned::probe(section(device.clone(), DiskAction::Erase))
        }
        _ => {
            let last = command
                .arguments
                .last()
                .filter(|word| word.is_single() && !word.beginning().starts_with('-'));
            Planned::probe(section(last.ok_or_else(unclear)?.clone(), DiskAction::Format))
        }
    }
}

pub(super) fn sentences(records: &Records) -> Result<Report, Reason> {
    let all: Vec<String> =
        records.all("say").map(|text| name(text.trim())).filter(|text| !text.is_empty()).collect();
    if all.is_empty() {
        return Err("the probe printed nothing".to_owned());
    }
    let more = all.len().saturating_sub(4);
    let mut text = all.iter().take(4).cloned().collect::<Vec<_>>().join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    Ok(text.into())
}
