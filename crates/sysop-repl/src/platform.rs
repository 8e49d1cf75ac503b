//! Everything that differs between operating systems, as in the module of the same name in `sysop-host`: the terminals
//! whose keys can be read. `cfg(target_os)` stands here and nowhere else in this crate.

/// True if keys can be read from the controlling terminal while standard input is something else. On macOS, crossterm
/// waits for keys with `kqueue`, which refuses `/dev/tty`.
pub(crate) const READS_CONTROLLING_TERMINAL: bool = cfg!(not(target_os = "macos"));
