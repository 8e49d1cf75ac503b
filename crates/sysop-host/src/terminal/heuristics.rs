//! Guesses from the text of a line or command, used where no better source exists. They decide only when to look again,
//! never an exit code.

pub(super) fn is_question(line: &str) -> bool {
    let line = line.trim_end();
    line.ends_with(['?', ':', ']', ')', '>'])
}

/// Returns true if the line is the status line of `less`, `more` or `man`.
pub(super) fn is_pager(line: &str) -> bool {
    let line = line.trim();
    line == ":"
        || line.starts_with("--More--")
        || line.starts_with("-- More --")
        || line.ends_with("(END)")
        || line.starts_with("Manual page ")
        || (line.starts_with("lines ") && line.contains('-'))
}

/// Returns true if the first word is a program that may start another shell.
pub(super) fn opens_shell(command: &str) -> bool {
    const OPENERS: [&str; 24] = [
        "bash", "sh", "zsh", "fish", "dash", "ash", "ksh", "csh", "tcsh", "busybox", "su", "sudo", "doas",
        "ssh", "docker", "podman", "kubectl", "nsenter", "chroot", "lxc", "machinectl", "newgrp", "env",
        "exec",
    ];
    command
        .split_whitespace()
        .next()
        .is_some_and(|word| OPENERS.contains(&word.rsplit('/').next().unwrap_or(word)))
}

#[cfg(test)]
mod tests {
    use super::{is_pager, is_question, opens_shell};

    #[test]
    fn prompts_and_commands_are_recognized() {
        assert!(is_question("Continue? [y/N] ") && is_question("name: ") && !is_question("42 files"));
        assert!(is_pager(":") && is_pager("(END)") && is_pager("--More--(50%)") && !is_pager("a: b"));
        assert!(opens_shell("sudo -i") && opens_shell("/usr/bin/ssh web1") && !opens_shell("ls bash"));
    }
}
