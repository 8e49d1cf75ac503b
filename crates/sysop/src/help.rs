//! The man page, generated from `cli`.

use std::io::Write;

use clap::CommandFactory;
use clap_mangen::roff::{Roff, roman};

use crate::cli::Arguments;

/// Returns the man page in roff: the program, then each command with its own flags. Never fails in practice, because
/// the page is written to memory.
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
    render_extra(&command, "SH", &mut page)?;
    top.render_version_section(&mut page)?;
    Ok(page)
}

/// Renders a command as a section. clap_mangen renders only whole pages, so headings are moved down a level.
fn render_subcommand(command: &clap::Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    // Global flags are described once, at the top.
    let own = command.clone().mut_args(|arg| {
        let everywhere = arg.is_global_set() || matches!(arg.get_id().as_str(), "help" | "version");
        if everywhere { arg.hide(true) } else { arg }
    });
    let has_own = own.get_arguments().any(|arg| !arg.is_hide_set());
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
    let page_of_subcommand = format!(r"sysop\-{}\-", command.get_name());
    for line in String::from_utf8_lossy(&section).lines() {
        if line == ".SH DESCRIPTION" {
            writeln!(page, ".SH \"{}\"", name.to_uppercase())?;
        } else if let Some(heading) = line.strip_prefix(".SH ") {
            writeln!(page, ".SS {heading}")?;
        } else if let Some(subcommand) = line.strip_prefix(&page_of_subcommand) {
            // All commands are on this page, so references drop the section number.
            writeln!(page, "{name} {}", subcommand.trim_end_matches("(1)"))?;
        } else {
            writeln!(page, "{line}")?;
        }
    }
    render_extra(command, "SS", page)
}

/// Renders the text that follows a command's help. A line that ends with a colon becomes a heading, and
/// indented lines keep their line breaks.
fn render_extra(command: &clap::Command, heading: &str, page: &mut Vec<u8>) -> std::io::Result<()> {
    let Some(text) = command.get_after_long_help().or(command.get_after_help()) else { return Ok(()) };
    let mut roff = Roff::new();
    for line in text.to_string().lines() {
        match (line.strip_suffix(':'), line.strip_prefix("  ")) {
            (Some(title), None) => {
                roff.control(heading, [title.to_uppercase().as_str()]);
                roff.control("nf", []);
            }
            (_, Some(as_it_stands)) => {
                roff.text([roman(as_it_stands)]);
            }
            (None, None) => {
                roff.control("fi", []);
                roff.control("PP", []);
                roff.text([roman(line)]);
            }
        }
    }
    roff.control("fi", []);
    roff.to_writer(page)
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
        assert!(
            page.contains("\n.SH \"EXIT CODES\"\n") && page.contains("\nsysop sessions list\n"),
            "{page}"
        );
        assert!(!page.contains("(1)"), "there is no other page to look at:\n{page}");
    }
}
