//! Previews of what overwrites a device, on a loop device, compared with what the commands then do.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use parking_lot::{Mutex, MutexGuard};
use sysop_core::preview::{self, ProbeResult};
use tempfile::TempDir;

use super::plan;

/// Size of the device: 64 MiB.
const SIZE: u64 = 64 * 1024 * 1024;

struct LoopDevice {
    home: TempDir,
    path: String,
    /// Two that look for a free device at the same time may find the same one.
    _only: MutexGuard<'static, ()>,
}

impl LoopDevice {
    fn new() -> Option<Self> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let only = ONE_AT_A_TIME.lock();
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("disk");
        std::fs::File::create(&file).unwrap().set_len(SIZE).unwrap();
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&file).output().ok()?;
        let path = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        if path.is_empty() {
            crate::world::not_tested("previews of devices", "there is no loop device");
            return None;
        }
        Some(Self { home, path, _only: only })
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.home.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Returns the type of what is on the device.
    fn content(&self) -> String {
        let output = Command::new("blkid").args(["-p", "-o", "value", "-s", "TYPE", &self.path]).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder("mnt")).stderr(Stdio::null()).status();
        let _ = Command::new("losetup").args(["-d", &self.path]).status();
    }
}

fn sh(command: &str) -> bool {
    let mut run = Command::new("sh");
    run.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    run.status().unwrap().success()
}

fn shown(command: &str) -> String {
    let plan = plan(command).unwrap_or_else(|| panic!("no preview: {command}"));
    let script = plan.script(false).unwrap_or_else(|| panic!("no probe: {command}"));
    let output = Command::new("bash").args(["-c", script]).stdin(Stdio::null()).output().unwrap().stdout;
    preview::lines(&plan, &[ProbeResult { host: String::new(), output: Ok(output) }]).join("\n")
}

#[test]
fn a_device_is_named_with_its_size_its_content_and_its_mount() {
    let Some(device) = LoopDevice::new() else { return };
    let at = &device.path;
    let mkfs = format!("mkfs.ext4 -q -F -L backup {at}");
    assert_eq!(shown(&mkfs), format!("formats {at}: 67 MB"));
    assert_eq!(device.content(), "", "a preview writes nothing");
    assert!(sh(&mkfs));
    let dd = format!("dd if=/dev/zero of={at} bs=1M count=1");
    assert_eq!(shown(&dd), format!("overwrites {at}: 67 MB ext4 backup"));
    let wipe = format!("wipefs -a {at}");
    assert_eq!(shown(&wipe), format!("erases the signatures of {at}: 67 MB ext4 backup"));
    assert_eq!(device.content(), "ext4");

    let mount = device.folder("mnt");
    if sh(&format!("mount {at} {}", mount.display())) {
        let text = shown(&mkfs);
        assert_eq!(text, format!("formats {at}: 67 MB ext4 backup; MOUNTED on {} (ext4)", mount.display()));
        assert!(!sh(&format!("mkfs.ext4 -q {at}")), "the real command refuses it as well");
        assert!(sh(&format!("umount {}", mount.display())));
    }
    // The kernel may release the device a moment after it is unmounted.
    assert!((0..100).any(|_| sh(&wipe)));
    assert_eq!((device.content().as_str(), shown(&dd)), ("", format!("overwrites {at}: 67 MB")));
    assert!(sh(&mkfs) && sh(&dd));
    assert_eq!(device.content(), "");
}

#[test]
fn a_volume_group_is_named_with_its_size() {
    let Some(device) = LoopDevice::new() else { return };
    let (at, group) = (&device.path, format!("sysoptest{}", std::process::id()));
    if !sh(&format!("pvcreate -q {at} && vgcreate -q {group} {at}")) {
        return crate::world::not_tested("previews of volume groups", "LVM does not work here");
    }
    let remove = format!("vgremove -y {group}");
    assert_eq!(shown(&remove), format!("vgremove: {group}, 60.00m, logical volumes: 0"));
    assert_eq!(shown(&format!("dd if=/dev/zero of={at}")), format!("overwrites {at}: 67 MB LVM2_member"));
    assert!(sh(&remove));
    assert_eq!(shown(&remove), format!("there is no volume group {group}"));
}

/// The kernel of a machine for tests may have no device mapper, so `lvs` is replaced.
#[test]
fn a_mounted_volume_is_found_by_its_device() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name).display().to_string();
    std::fs::write(at("lvs"), format!("#!/bin/sh\necho '  {} 8.00g root'\n", at("vg-data"))).unwrap();
    let script = format!(
        "chmod +x {0}/lvs; : >{0}/dm-0; ln -s dm-0 {0}/vg-data; ln -s dm-0 {0}/mapped; mkdir {0}/m; mount -t tmpfs {0}/mapped {0}/m || \
         exit 9\nPATH={0}:$PATH\n",
        home.path().display()
    );
    let plan = plan("lvremove -f vg/data").unwrap();
    let script = script + plan.script(false).unwrap();
    let run =
        Command::new("unshare").args(["-m", "bash", "-c", &script]).stdin(Stdio::null()).output().unwrap();
    if matches!(run.status.code(), Some(1 | 9)) && run.stdout.is_empty() {
        return crate::world::not_tested("the preview of a mounted volume", "nothing can be mounted here");
    }
    let text =
        preview::lines(&plan, &[ProbeResult { host: String::new(), output: Ok(run.stdout) }]).join("\n");
    let (volume, mount) = (at("vg-data"), at("m"));
    assert_eq!(text, format!("lvremove: {volume} 8.00g snapshot of root; {volume} is MOUNTED on {mount}"));
}
