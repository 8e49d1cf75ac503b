//! Short form of many host names: `app[01-20]`, as in `clush` and `pdsh`.

/// Minimum number of consecutive hosts that are written as a range.
const RANGE_HOSTS_MIN: usize = 3;

/// A host name with a number in it.
#[derive(Clone, Copy)]
struct NumberedName<'a> {
    before: &'a str,
    digits: &'a str,
    after: &'a str,
    number: u64,
}

impl<'a> NumberedName<'a> {
    /// Splits a name around the last number in its first label. Returns `None` if there is no number, or nothing before
    /// the number, as in an IP address.
    fn of(name: &'a str) -> Option<Self> {
        let user = name.rfind('@').map_or(0, |at| at + 1);
        let label_end = name[user..].find(['.', ':']).map_or(name.len(), |at| user + at);
        let label = &name[..label_end];
        let end = user + label[user..].rfind(|letter: char| letter.is_ascii_digit())? + 1;
        let before = label[user..end].trim_end_matches(|letter: char| letter.is_ascii_digit());
        let start = user + before.len();
        // An address, or a name without letters.
        if start == user {
            return None;
        }
        let digits = &name[start..end];
        Some(Self { before: &name[..start], digits, after: &name[end..], number: digits.parse().ok()? })
    }

    /// Returns true if `next` follows this name in a range.
    fn precedes(&self, next: &Self) -> bool {
        let same_width = next.digits.len() == self.digits.len() || !(self.is_padded() || next.is_padded());
        self.before == next.before
            && self.after == next.after
            && self.number.checked_add(1) == Some(next.number)
            && same_width
    }

    fn is_padded(&self) -> bool {
        self.digits.len() > 1 && self.digits.starts_with('0')
    }
}

/// Joins host names with commas. Three or more names with consecutive numbers become a range. The order is kept.
///
/// ```
/// use sysop_shell::host_names::fold_names;
///
/// assert_eq!(fold_names(&["app01", "app02", "app03", "db1"]), "app[01-03], db1");
/// ```
pub fn fold_names(names: &[&str]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < names.len() {
        let mut last = NumberedName::of(names[at]);
        let mut end = at + 1;
        while let (Some(one), Some(next)) = (last, names.get(end).and_then(|name| NumberedName::of(name))) {
            if !one.precedes(&next) {
                break;
            }
            (last, end) = (Some(next), end + 1);
        }
        match (NumberedName::of(names[at]), last) {
            (Some(first), Some(last)) if end - at >= RANGE_HOSTS_MIN => {
                parts.push(format!("{}[{}-{}]{}", first.before, first.digits, last.digits, first.after));
                at = end;
            }
            _ => {
                parts.push(names[at].to_owned());
                at += 1;
            }
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::fold_names;

    #[test]
    fn consecutive_hosts_become_ranges_and_nothing_else_changes() {
        let cases: [(&[&str], &str); 8] = [
            (&["app01", "app02", "app03"], "app[01-03]"),
            (&["app9", "app10", "app11"], "app[9-11]"),
            (&["app09", "app10", "app11", "web1"], "app[09-11], web1"),
            (&["app1", "app2"], "app1, app2"),
            (&["app1", "app3", "app5"], "app1, app3, app5"),
            (&["me@web1.example", "me@web2.example", "me@web3.example"], "me@web[1-3].example"),
            (&["10.0.0.1", "10.0.0.2", "10.0.0.3"], "10.0.0.1, 10.0.0.2, 10.0.0.3"),
            (&["db", "web1", "web2", "web3"], "db, web[1-3]"),
        ];
        for (names, short) in cases {
            assert_eq!(fold_names(names), short);
        }
        assert_eq!(fold_names(&["a1", "b2", "c3"]), "a1, b2, c3");
        assert_eq!(fold_names(&["a99999999999999999999", "a1", "語2"]), "a99999999999999999999, a1, 語2");
    }
}
