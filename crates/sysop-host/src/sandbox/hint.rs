//! Hint for the model if a command failed inside a fence.
//!
//! Without the hint, models mistake a refusal by the sandbox for a fault in the machine: a registry that is
//! down, or a missing database.

use std::path::Path;

use sysop_core::policy::Fence;

use super::request::{TEMPORARY_FOLDERS, has_network};

/// Messages that programs print if the sandbox stops them. The messages also have other causes.
const SYMPTOMS: [&str; 6] = [
    "permission denied", "operation not permitted", "read-only file system", "could not resolve",
    "network is unreachable", "no new privileges",
];

/// Way for the model to run a command outside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// The model may ask to run a command outside the sandbox.
    Offered,
    /// The model cannot run a command outside the sandbox.
    Missing,
}

/// Returns the hint for a command that failed in a fence and printed `printed`. `None` for another cause.
pub(crate) fn hint(fence: &Fence, root: &Path, escape: Escape, printed: &str) -> Option<String> {
    let printed = printed.to_ascii_lowercase();
    SYMPTOMS.iter().find(|symptom| printed.contains(**symptom))?;
    let writes = match fence {
        Fence::Off => return None,
        Fence::ReadOnly { .. } => "$TMPDIR only".to_owned(),
        Fence::Workspace { write, .. } => {
            let root = root.display().to_string();
            let folders = [root.as_str()].into_iter().chain(TEMPORARY_FOLDERS);
            let there = write.iter().map(String::as_str).filter(|folder| Path::new(folder).exists());
            folders.chain(there).collect::<Vec<_>>().join(", ")
        }
    };
    let network = if has_network(fence) { "" } else { "; no network" };
    let next = match (fence, escape) {
        (Fence::Workspace { .. }, Escape::Offered) => {
            "If the sandbox is the cause, call again with outside_sandbox=true and a reason; the user will be asked."
        }
        (Fence::Workspace { .. }, Escape::Missing) => "This session cannot run commands outside the sandbox.",
        (Fence::ReadOnly { .. } | Fence::Off, _) => {
            "This session is read-only; it cannot run commands outside the \
             sandbox."
        }
    };
    Some(format!("[sysop: this ran in a sandbox (writable: {writes}{network}). {next}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(network: bool, write: &[&str]) -> Fence {
        Fence::Workspace { write: write.iter().map(|path| (*path).to_owned()).collect(), network }
    }

    #[test]
    fn a_sandbox_failure_tells_the_model_its_rights_and_how_to_ask_for_more() {
        let told =
            |fence: &Fence, escape| hint(fence, Path::new("/srv/app"), escape, "sh: a: Permission denied");
        assert_eq!(
            told(&workspace(false, &["/usr", "/no/such"]), Escape::Offered).as_deref(),
            Some(
                "[sysop: this ran in a sandbox (writable: /srv/app, /tmp, /var/tmp, /usr; no network). If the sandbox \
                 is the cause, call again with outside_sandbox=true and a reason; the user will be asked.]"
            )
        );
        assert_eq!(
            told(&workspace(true, &[]), Escape::Missing).as_deref(),
            Some(
                "[sysop: this ran in a sandbox (writable: /srv/app, /tmp, /var/tmp). This session cannot run commands \
                 outside the sandbox.]"
            )
        );
        assert_eq!(
            told(&Fence::ReadOnly { network: false }, Escape::Offered).as_deref(),
            Some(
                "[sysop: this ran in a sandbox (writable: $TMPDIR only; no network). This session is read-only; it \
                 cannot run commands outside the sandbox.]"
            )
        );
        assert_eq!(told(&Fence::Off, Escape::Offered), None);
    }

    #[test]
    fn an_unrelated_failure_gets_no_sandbox_hint() {
        let fence = workspace(true, &[]);
        assert_eq!(hint(&fence, Path::new("/"), Escape::Offered, "error: 3 tests failed"), None);
        for printed in ["curl: (6) Could not resolve host: x", "touch: Read-only file system"] {
            assert!(hint(&fence, Path::new("/"), Escape::Offered, printed).is_some(), "{printed}");
        }
    }
}
