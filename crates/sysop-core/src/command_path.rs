//! Absolute paths of the words in a command.

/// Returns the absolute path of a word of a command, without `.` and `..`. `?` stands for an unknown directory.
pub(crate) fn absolute(word: &str, folder: Option<&str>, home: Option<&str>) -> String {
    let home = home.unwrap_or("~");
    let joined = match word.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        _ if word.starts_with('/') => word.to_owned(),
        _ => format!("{}/{word}", folder.unwrap_or("?")),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
