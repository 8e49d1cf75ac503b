//! Commands that run in containers.

use super::class_of;
use crate::risk::RiskClass;

#[test]
fn a_command_in_a_container_is_judged_like_the_command_alone_but_never_below_a_change() {
    for command in [
        "env",
        "printenv",
        "printenv HOME",
        "printenv DB_PASSWORD",
        "sh -c 'echo $DB_PASSWORD'",
        "cat /etc/hosts",
        "cat /etc/shadow",
        "cat /run/secrets/db",
        "rm -rf /",
    ] {
        let alone = class_of(command).0;
        for (container, lowest) in [
            ("docker exec web", RiskClass::Changes),
            ("docker exec -it -u root web", RiskClass::Changes),
            ("docker container exec web", RiskClass::Changes),
            ("podman exec web", RiskClass::Changes),
            ("docker compose exec web", RiskClass::Opaque),
            ("kubectl exec web --", RiskClass::Opaque),
            ("kubectl exec -it web -c app --", RiskClass::Opaque),
        ] {
            let inner = format!("{container} {command}");
            assert_eq!(class_of(&inner).0, alone.max(lowest), "{inner}");
        }
    }
}
