//! Exported scripts after a step that fails, run by `sh`.

use std::process::{Command, Stdio};

use super::*;

/// Exports these steps as a script and runs it. Returns the exit code, standard error, and the directory.
fn run(steps: &str) -> (Option<i32>, String, tempfile::TempDir) {
    let mut draft = draft(&record(&[bash("touch x", 0)]), &options());
    let text = format!("[routines.r]\ndescription = 'x'\n{steps}");
    let mut read = routines_of_text(Path::new("book.toml"), &text).unwrap();
    draft.routine = read.routines.remove("r").unwrap();
    let home = tempfile::tempdir().unwrap();
    let script = home.path().join("book.sh");
    std::fs::write(&script, draft.write(RunbookFormat::Sh)).unwrap();
    let mut command = Command::new("sh");
    command.arg(&script).current_dir(home.path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap(), home)
}

fn failing(failure: &str) -> String {
    format!(
        "[[routines.r.steps]]\nname = 'a'\ncmd = 'mkdir a'\nundo = 'rmdir a'\n\
         [[routines.r.steps]]\nname = 'b'\ncmd = 'mkdir b'\nundo = 'rmdir b'\n{failure}\n\
         [[routines.r.steps]]\nname = 'after'\ncmd = 'touch after'\n"
    )
}

#[test]
fn a_script_stops_and_names_the_undo_or_continues() {
    let order = "to undo the steps so far, in this order:\nrmdir b\nrmdir a\n";
    let step = |rest: &str| failing(&format!("[[routines.r.steps]]\nname = 'fail'\ncmd = 'exit 3'\n{rest}"));
    for on_fail in ["", "on_fail = 'stop'", "on_fail = 'undo'"] {
        let (code, said, home) = run(&step(on_fail));
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("stopped at step 3 of 4 (fail): exit code 3") && said.ends_with(order),
            "{said}"
        );
        assert!(home.path().join("a").exists() && !home.path().join("after").exists(), "{said}");
    }
    let (code, said, home) = run(&step("on_fail = 'continue'"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("failed, continuing: exit code 3, expected 0"), "{said}");
    assert!(home.path().join("after").exists(), "{said}");
}

#[test]
fn a_step_whose_verify_fails_has_run_and_is_undone_first() {
    let (code, said, _) = run(&failing("verify = 'test -e nothing'"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.ends_with("to undo the steps so far, in this order:\nrmdir b\nrmdir a\n"), "{said}");
    let (_, said, _) = run(&failing("expect = { exit = 7 }"));
    assert!(said.ends_with("to undo the steps so far, in this order:\nrmdir a\n"), "{said}");
}
