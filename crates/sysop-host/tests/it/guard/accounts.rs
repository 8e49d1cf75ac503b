//! Changes of accounts, keys and sudo rules.

use sysop_core::guard::GuardEnd;

use super::target::{Setup, Target, all_heal};

const ANN: Setup = Setup { user: "ann", name: "far", system: None, config: "StrictModes yes\n" };
/// Prints what the rollback has to restore.
const STATE: &str = "cd /etc; sha256sum passwd shadow group gshadow sudoers; ls -l sudoers; ls nologin 2>&1; \
    h=$(grep ^ann: passwd | cut -d: -f6); sha256sum $h/.ssh/authorized_keys; stat -c '%a %u:%g' $h $h/.ssh/authorized_keys";

#[test]
fn locked_accounts_are_unlocked() {
    all_heal(
        ANN,
        30,
        STATE,
        &[
            // Without PAM, the ssh server refuses accounts whose password is locked.
            "sudo passwd -q -l ann",
            "sudo usermod -L ann",
            "sudo usermod -s /usr/sbin/nologin ann",
            "sudo usermod -e 1 ann",
            "sudo sed -i 's/^ann:[*]/ann:!/' /etc/shadow",
            "sudo sed -i '/^ann:/d' /etc/passwd",
            "echo maintenance | sudo tee /etc/nologin",
        ],
    );
}

#[test]
fn lost_keys_and_rights_are_restored() {
    all_heal(
        ANN,
        30,
        STATE,
        &[
            "echo nothing >~/.ssh/authorized_keys",
            "rm -r ~/.ssh",
            "chmod 777 ~",
            "chmod 666 ~/.ssh/authorized_keys",
            "sudo sed -i /NOPASSWD/d /etc/sudoers",
            "echo 'ann ALL=(ALL) ALL' | sudo tee -a /etc/sudoers",
            "echo 'Defaults' | sudo tee /etc/sudoers",
            "sudo chmod 666 /etc/sudoers",
        ],
    );
}

#[tokio::test]
async fn a_lost_sudo_group_is_restored() {
    let Some(target) = Target::with(ANN) else { return };
    target.inside(
        "groupadd ops; gpasswd -a ann ops; sed -i 's/^ann .*/%ops ALL=(ALL) NOPASSWD: ALL/' /etc/sudoers",
    );
    let before = target.text("/etc/group");
    for change in ["sudo gpasswd -d ann ops", "sudo usermod -G '' ann"] {
        let session = target.session(30);
        let outcome = session.guarded(change).await;
        assert!(outcome.output.contains("sudo no longer works as before"), "{change}: {}", outcome.output);
        assert_eq!(session.endings(), [GuardEnd::Fired], "{change}");
        assert_eq!(target.text("/etc/group"), before, "{change}");
    }
}

#[tokio::test]
async fn harmless_changes_of_accounts_are_confirmed() {
    let Some(target) = Target::with(ANN) else { return };
    for change in [
        "sudo usermod -c Ann ann",
        "echo '# x' | sudo tee -a /etc/sudoers",
        "echo '# x' >>~/.ssh/authorized_keys",
    ] {
        let session = target.session(60);
        let outcome = session.guarded(change).await;
        assert_eq!(session.endings(), [GuardEnd::Confirmed], "{change}: {}", outcome.output);
    }
    assert!(target.text("/etc/passwd").contains(":Ann:"));
}
