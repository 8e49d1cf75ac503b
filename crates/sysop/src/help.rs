//! What is printed for other programs to read: shell completions and the manual page. Both come from `cli`.

use std::io::Write;

use clap::CommandFactory;

use crate::cli::Arguments;

/// The completion script for a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "sysop", &mut script);
    script
}

/// The manual page, in roff: the program, then each command with its own flags.
///
/// # Errors
/// Never in practice: it is written to memory.
pub(crate) fn manual() -> std::io::Result<Vec<u8>> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut page = Vec::new();
    let top = clap_mangen::Man::new(command.clone());
    top.render_title(&mut page)?;
    top.render_name_section(&mut page)?;
    top.render_synopsis_section(&mut page)?;
    top.render_description_section(&mut page)?;
    top.render_options_section(&mut page)?;
    for subcommand in command.get_subcommands() {
        render_subcommand(subcommand, &mut page)?;
    }
    top.render_extra_section(&mut page)?;
    top.render_version_section(&mut page)?;
    Ok(page)
}

/// A command as a section of its own; clap_mangen makes pages only, so its headings go one level down.
fn render_subcommand(command: &clap::Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    // The flags that go with every command are described once, at the top.
    let own = command.clone().mut_args(|arg| {
        let everywhere = arg.is_global_set() || matches!(arg.get_id().as_str(), "help" | "version");
        if everywhere { arg.hide(true) } else { arg }
    });
    let has_own = own.get_arguments().any(|arg| !arg.is_hide_set());
    let has_examples = own.get_after_help().is_some() || own.get_after_long_help().is_some();
    let name = format!("sysop {}", command.get_name());
    let man = clap_mangen::Man::new(own);
    let mut section = Vec::new();
    man.render_description_section(&mut section)?;
    if has_own {
        man.render_options_section(&mut section)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut section)?;
    }
    if has_examples {
        man.render_extra_section(&mut section)?;
    }
    for line in String::from_utf8_lossy(&section).lines() {
        match line {
            ".SH DESCRIPTION" => writeln!(page, ".SH \"{}\"", name.to_uppercase())?,
            ".SH EXTRA" => {}
            line => match line.strip_prefix(".SH ") {
                Some(heading) => writeln!(page, ".SS {heading}")?,
                None => writeln!(page, "{line}")?,
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::manual;

    #[test]
    fn the_manual_page_has_a_section_for_each_command() {
        let page = String::from_utf8(manual().unwrap()).unwrap();
        for section in
            ["SYSOP CHAT", "SYSOP EXEC", "SYSOP RUN", "SYSOP SESSIONS", "SYSOP MOCK-LLM", "SYSOP DOCTOR"]
        {
            assert!(page.contains(&format!(".SH \"{section}\"")), "{section} is missing:\n{page}");
        }
        let definitions = page.lines().filter(|line| line.starts_with(r"\fB\-\-approve\fR")).count();
        assert_eq!(definitions, 1, "a flag of every command is described once:\n{page}");
    }
}
