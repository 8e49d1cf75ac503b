//! Sandbox features of this machine.

use sysop_core::policy::SandboxMode;
use sysop_host::SandboxSupport;

use super::{CheckStatus, DoctorReport};
use crate::settings::{HostChoice, Settings};

pub(super) fn sandbox(settings: &Settings, kernel: SandboxSupport, report: &mut DoctorReport) {
    let mode = settings.sandbox_mode();
    let word = mode.as_str();
    let remote = !matches!(settings.host, HostChoice::Local);
    match (mode, kernel.is_usable()) {
        (SandboxMode::Off, _) => report.line(CheckStatus::Note, "sandbox", "off: not enforced", None),
        (SandboxMode::Auto | SandboxMode::On, _) if remote => {
            let text = format!("{word}: not enforced on remote hosts");
            report.line(CheckStatus::Note, "sandbox", &text, None);
        }
        (SandboxMode::Auto | SandboxMode::On, true) => {
            report.good("sandbox", &format!("{word}: {}", kernel.summary()));
            let text = format!("not prevented by the sandbox on this kernel: {}", kernel.gaps().join("; "));
            report.line(CheckStatus::Note, "sandbox", &text, None);
        }
        (SandboxMode::Auto, false) => {
            report.line(CheckStatus::Note, "sandbox", &format!("{word}: {}", kernel.summary()), None);
        }
        (SandboxMode::On, false) => {
            let text = format!("{word}: {}", kernel.summary());
            report.line(CheckStatus::Bad, "sandbox", &text, Some(SandboxSupport::remedy()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;
    use crate::config::tests::World;
    use crate::global_flags::GlobalFlags;
    use crate::settings::ColorMode;

    fn report(config: &str, kernel: SandboxSupport) -> String {
        let mut report = DoctorReport::default();
        let world = World::new().own(config);
        let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
        let environment = Environment::default();
        let settings = Settings::from_parts(&flags, environment, world.folders(), ColorMode::Off).unwrap();
        sandbox(&settings, kernel, &mut report);
        report.problems + &report.text
    }

    #[test]
    fn missing_kernel_support_is_a_note_in_auto_and_a_failure_in_on() {
        let none = SandboxSupport::NONE;
        assert!(report("", none).starts_with("note  sandbox   auto: not enforced"), "{}", report("", none));
        assert!(report("sandbox = 'on'\n", none).starts_with("FAIL  sandbox   on: not enforced"));
        assert_eq!(report("sandbox = 'off'\n", none), "note  sandbox   off: not enforced\n");
    }

    #[test]
    fn kernel_support_is_reported_with_its_gaps() {
        let kernel = SandboxSupport::of_kernel();
        if kernel.is_usable() {
            let text = report("", kernel);
            assert!(text.starts_with("ok    sandbox   auto: Landlock ABI "), "{text}");
            assert!(text.contains("not prevented by the sandbox on this kernel: chmod"), "{text}");
        }
    }

    #[test]
    fn remote_hosts_are_reported_as_not_sandboxed() {
        let text = report("[connection]\nhost = 'web1'\n", SandboxSupport::of_kernel());
        assert_eq!(text, "note  sandbox   auto: not enforced on remote hosts\n");
    }
}
