//! Previews that need no probe, and the text of probes. The probes run in the tests of the host.

use super::bash;
use crate::CommandContext;
use crate::preview::{PreviewPlace, PreviewPlan, plan};

fn plan_of(command: &str) -> PreviewPlan {
    let place = PreviewPlace { context: bash().context, ..PreviewPlace::default() };
    plan(command, &place).unwrap_or_else(|| panic!("{command} has no preview"))
}

#[test]
fn the_objects_of_sql_statements_are_named() {
    for (statement, tables) in [
        ("DROP TABLE a, b", "a, b"),
        ("drop table if exists a,b cascade", "a, b"),
        ("TRUNCATE a, b", "a, b"),
        ("TRUNCATE TABLE ONLY a *, \"b\" RESTART IDENTITY", "a, b"),
        ("INSERT IGNORE INTO t (x, y) VALUES (1, 2)", "t"),
        ("INSERT INTO t(x) VALUES (1)", "t"),
        ("INSERT OR REPLACE INTO t VALUES (1)", "t"),
        ("DELETE FROM ONLY t WHERE x = 1", "t"),
        ("UPDATE ONLY t SET x = 1 WHERE y = 2", "t"),
        ("ALTER TABLE ONLY t ADD COLUMN x int", "t"),
        ("ALTER TABLE IF EXISTS ONLY t DROP COLUMN x, DROP COLUMN y", "t"),
        ("DROP INDEX CONCURRENTLY IF EXISTS i", "i"),
        ("DROP MATERIALIZED VIEW v", "v"),
        ("DROP TABLE a; DROP TABLE a, b", "a, b"),
    ] {
        let command = format!("psql -c '{statement}'");
        let shown = plan_of(&command).lines_without("");
        assert!(shown[0].starts_with(&format!("changes {tables}: ")), "{command}: {shown:?}");
    }
}

#[test]
fn a_bare_env_prints_variables() {
    let place = PreviewPlace { context: CommandContext::bash(), ..PreviewPlace::default() };
    assert_eq!(plan("env | sort | frob", &place), None);
    let lines = plan_of("env >vars && sudo").lines_without("no probe");
    assert!(!lines[0].contains("names no program"), "{lines:?}");
    assert!(lines[1].contains("the command names no program"), "{lines:?}");
}

#[test]
fn files_that_list_packages_are_no_packages() {
    for (arguments, packages) in [
        ("-r requirements.txt", " (listed in requirements.txt)"),
        ("-rrequirements.txt -U", " (listed in requirements.txt)"),
        ("--requirement=a.txt --requirement b.txt", " (listed in a.txt, b.txt)"),
        (
            "requests -r requirements.txt -c limits.txt flask",
            " (requests, flask; listed in requirements.txt)",
        ),
        ("--index-url https://pypi.example.com requests", " (requests)"),
    ] {
        let shown = plan_of(&format!("pip install {arguments}")).lines_without("");
        let start = format!("downloads packages{packages} and may run their code");
        assert!(shown[0].starts_with(&start), "{arguments}: {shown:?}");
    }
}

#[test]
fn the_verb_for_power_fits_the_options() {
    for (command, verb) in [
        ("reboot", "restarts"),
        ("reboot -f", "restarts"),
        ("reboot -p", "stops"),
        ("reboot --halt", "stops"),
        ("reboot -fp", "stops or restarts"),
        ("halt", "stops"),
        ("halt --reboot", "restarts"),
        ("halt --reboot -p", "stops or restarts"),
        ("poweroff --frobnicate", "stops or restarts"),
        ("shutdown now", "stops"),
        ("shutdown -h +5 bye", "stops"),
        ("shutdown -r now", "restarts"),
        ("shutdown -fr now", "stops or restarts"),
        ("shutdown $HOW", "stops or restarts"),
        ("shutdown -c", "cancels a planned stop of"),
        ("shutdown -k now", "only warns the users of"),
    ] {
        let plan = plan_of(command);
        let script = plan.script(false).unwrap_or_else(|| panic!("{command} has no probe"));
        assert!(script.contains(&format!("r say \"{verb} $(uname -n)\"")), "{command}: {script}");
    }
}

#[test]
fn the_commands_of_a_script_are_as_dangerous_as_the_command_that_runs_it() {
    let harmless: Vec<String> = (0..10).map(|n| format!("chmod 600 file{n}")).collect();
    let harmless = harmless.join("; ");
    // The redirection is dangerous, the script is not.
    let outer = "sh -c 'chmod 600 x' >/etc/passwd";
    let shown = plan_of(&format!("{harmless}; {outer}")).lines_without("no host");
    assert!(shown[0].ends_with(&format!("`{outer}`: effect unknown (no host)")), "{shown:?}");

    // The script explains the danger: only its dangerous command comes first.
    let shown =
        plan_of(&format!("sudo sh -c '{harmless}; rm -rf /srv/data --frobnicate'")).lines_without("no host");
    let unknown = "effect unknown (the option --frobnicate is unknown)";
    assert!(
        shown[0].ends_with(&format!("`sudo sh -c 'chmod 600 file0; chmod 600 f…`: {unknown}")),
        "{shown:?}"
    );
}
