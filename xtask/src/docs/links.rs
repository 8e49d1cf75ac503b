//! Links in pages, as they are in the repository and as they are in the guide.

/// Address of the repository's files that are not pages of the guide.
const REPOSITORY: &str = "https://github.com/sysop/sysop/blob/main/";

/// Replaces a page's links below `docs` with links within the guide, and drops the doc runner's comments.
pub(super) fn rewrite(text: &str) -> String {
    let mut rewritten = String::with_capacity(text.len());
    let (mut is_code, mut is_comment) = (false, false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        is_comment |= !is_code && line.starts_with("<!--");
        if is_comment {
            is_comment = !line.contains("-->");
            continue;
        }
        rewritten.push_str(&if is_code { line.to_owned() } else { rewrite_line(line) });
        rewritten.push('\n');
    }
    rewritten
}

fn rewrite_line(line: &str) -> String {
    let mut parts = line.split("](");
    let mut rewritten = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rewritten.push_str("](");
        match part.split_once(')') {
            Some((link, rest)) => {
                rewritten.push_str(&target(link));
                rewritten.push(')');
                rewritten.push_str(rest);
            }
            None => rewritten.push_str(part),
        }
    }
    rewritten
}

/// Returns the link to use in the guide for a link in a page in `docs` or `docs/guide`.
fn target(link: &str) -> String {
    if link.contains("://") || link.starts_with('#') || link.starts_with("mailto:") {
        return link.to_owned();
    }
    let mut path = link;
    while let Some(outer) = path.strip_prefix("../") {
        path = outer;
    }
    let path = path.strip_prefix("docs/").unwrap_or(path);
    let path = path.strip_prefix("guide/").unwrap_or(path);
    let file = path.split('#').next().unwrap_or(path);
    let is_page =
        file.ends_with(".md") && !file.contains('/') && !file.starts_with(|c: char| c.is_uppercase());
    if is_page || file == "SUMMARY.md" || file.starts_with("pictures/") {
        return path.to_owned();
    }
    let below = if path.starts_with("adr/") { "docs/" } else { "" };
    format!("{REPOSITORY}{below}{path}")
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[test]
    fn links_point_to_pages_of_the_guide_or_to_the_repository() {
        let text = "[a](policy.md) [b](../server.md#tokens), ![c](../pictures/x.svg) [d](guide/hosts.md)\n\
                    [e](../README.md) [f](adr/0001-x.md) [g](#here) [h](https://example.org/x)\n";
        let expected = "[a](policy.md) [b](server.md#tokens), ![c](pictures/x.svg) [d](hosts.md)\n\
                        [e](https://github.com/sysop/sysop/blob/main/README.md) \
                        [f](https://github.com/sysop/sysop/blob/main/docs/adr/0001-x.md) [g](#here) \
                        [h](https://example.org/x)\n";
        assert_eq!(rewrite(text), expected);
    }

    #[test]
    fn comments_are_left_out_and_code_stays_unchanged() {
        let text = "a\n<!-- run\nls\n-->\nb\n```sh\n# [x](../README.md)\n<!-- y -->\n```\n";
        assert_eq!(rewrite(text), "a\nb\n```sh\n# [x](../README.md)\n<!-- y -->\n```\n");
    }
}
