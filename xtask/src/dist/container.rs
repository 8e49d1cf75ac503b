//! Builds and runs the container of a release with buildah and podman, on a fresh Debian as its base.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::setup;
use crate::workspace::step;

const TOOLS: [(&str, &str); 3] = [("buildah", "buildah"), ("podman", "podman"), ("runc", "runc")];
/// Name of the base image, which is made from a fresh Debian so that no registry is needed.
const BASE: &str = "localhost/sysop-base";
/// Commands as in the guide. The options added by `check` let them run without systemd, an overlay file
/// system, and the privilege to raise limits.
const BUILD: &str = "buildah build --tag sysop --file Containerfile .";
const RUN: &str = "podman run --rm sysop sysop --version";
/// Name of the container that serves as a host.
const TRIAL: &str = "sysop-trial";
const LIMITED: &str = "run --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 ";
/// Environment variables that let buildah and podman work without an overlay file system and without a daemon for
/// cgroups.
const STORAGE: [(&str, &str); 2] = [("STORAGE_DRIVER", "vfs"), ("BUILDAH_ISOLATION", "chroot")];

/// Creates the base image from a Debian root directory, then builds and runs the container from a directory
/// with the package `sysop` and `Containerfile`.
pub(super) fn check(debian: &Path, folder: &Path) -> Result<()> {
    setup::need(&TOOLS)?;
    let import = format!("tar -C '{}' -c . | podman import - {BASE}", debian.display());
    step(
        "make a base image",
        program("sh", &["-c", &import], folder).stdout(std::fs::File::create("/dev/null")?),
    )?;
    let build = BUILD.replacen("build ", &format!("build --build-arg BASE={BASE} --pull=never "), 1);
    step("build the container", &mut shell(&build, folder))?;
    let run = RUN.replacen("run ", LIMITED, 1).replacen(
        "podman ",
        "podman --runtime runc --cgroup-manager cgroupfs ",
        1,
    );
    let said = shell(&run, folder).output().context("cannot start podman")?;
    let said = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    ensure!(said.contains("sysop "), "the container printed: {said}");
    eprintln!("    {RUN}: {}", said.trim());
    Ok(())
}

/// Runs sysop's demo on a running container, and checks that the files are there.
pub(super) fn check_host(sysop: &Path, folder: &Path) -> Result<()> {
    let podman = "podman --runtime runc --cgroup-manager cgroupfs";
    let start = format!("{podman} {LIMITED} --detach --replace --name {TRIAL} {BASE} sleep 600");
    step("start a container", shell(&start, folder).stdout(std::fs::File::create("/dev/null")?))?;
    let mut task =
        program(&sysop.display().to_string(), &["exec", "--host", &format!("podman:{TRIAL}")], folder);
    task.args(["--model", "demo", "--approve", "auto", "demo: show me what you do"]).env("HOME", folder);
    let done = step("run a task in the container", &mut task);
    let said = shell(&format!("{podman} exec {TRIAL} sh -c 'cat ~/sysop-demo.sh'"), folder).output();
    // Remove the container, whatever happened.
    let _ = shell(&format!("{podman} rm --force {TRIAL}"), folder).output();
    done?;
    let said = String::from_utf8_lossy(&said.context("cannot start podman")?.stdout).into_owned();
    ensure!(said.starts_with("#!/bin/sh"), "the container has no script: {said}");
    Ok(())
}

fn shell(command: &str, folder: &Path) -> Command {
    program("sh", &["-c", command], folder)
}

fn program(name: &str, arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(folder).envs(STORAGE);
    command
}
