//! Differences between two short strings, line by line.

/// Maximum product of the numbers of changed lines of both strings for an exact comparison. Above it, all of these
/// lines count as changed.
const CELLS_MAX: usize = 4_000_000;

/// Returns the lines of a unified diff with one line of context and without file names.
pub(super) fn unified(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let prefix = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let (left, right) = (&old[prefix..], &new[prefix..]);
    let suffix = left.iter().rev().zip(right.iter().rev()).take_while(|(one, other)| one == other).count();
    let (left, right) = (&left[..left.len() - suffix], &right[..right.len() - suffix]);
    let mut out = Vec::new();
    let (mut at_old, mut at_new) = (prefix, prefix);
    let mut last_context = None;
    for (removed, added, kept) in changes(left, right) {
        if removed + added > 0 {
            if at_old > 0 && last_context != Some(at_old - 1) {
                out.push(format!("@@ -{} +{} @@", at_old + 1, at_new + 1));
                out.push(format!(" {}", line(old[at_old - 1])));
            } else if at_old == 0 {
                out.push("@@ -1 +1 @@".to_owned());
            }
            out.extend(old[at_old..at_old + removed].iter().map(|text| format!("-{}", line(text))));
            out.extend(new[at_new..at_new + added].iter().map(|text| format!("+{}", line(text))));
            at_old += removed;
            at_new += added;
            if let Some(next) = old.get(at_old) {
                out.push(format!(" {}", line(next)));
                last_context = Some(at_old);
            }
        }
        at_old += kept;
        at_new += kept;
    }
    out
}

fn line(text: &str) -> &str {
    text.trim_end_matches('\n')
}

/// Returns the changes in order: the numbers of removed lines, of added lines, and of equal lines after them.
fn changes(left: &[&str], right: &[&str]) -> Vec<(usize, usize, usize)> {
    let (rows, columns) = (left.len(), right.len());
    if rows == 0 && columns == 0 {
        return Vec::new();
    }
    if rows.saturating_mul(columns) > CELLS_MAX || rows == 0 || columns == 0 {
        return vec![(rows, columns, 0)];
    }
    // `length[row][column]` is the length of the longest common subsequence of the remaining lines.
    let width = columns + 1;
    let mut length = vec![0_u32; (rows + 1) * width];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            let cell = row * width + column;
            length[cell] = if left[row] == right[column] {
                length[cell + width + 1] + 1
            } else {
                length[cell + width].max(length[cell + 1])
            };
        }
    }
    let mut out: Vec<(usize, usize, usize)> = Vec::new();
    let (mut row, mut column) = (0, 0);
    let mut open = (0, 0, 0);
    while row < rows || column < columns {
        if row < rows && column < columns && left[row] == right[column] {
            open.2 += 1;
            (row, column) = (row + 1, column + 1);
            continue;
        }
        if open.2 > 0 {
            out.push(std::mem::take(&mut open));
        }
        let cell = row * width + column;
        if column == columns || (row < rows && length[cell + width] >= length[cell + 1]) {
            open.0 += 1;
            row += 1;
        } else {
            open.1 += 1;
            column += 1;
        }
    }
    out.push(open);
    out
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn a_diff_shows_changed_lines_with_their_neighbors() {
        let diff = unified("a\nb\nc\nd\ne\n", "a\nB\nc\nd\ne\nf\n");
        assert_eq!(diff, ["@@ -2 +2 @@", " a", "-b", "+B", " c", "@@ -6 +6 @@", " e", "+f"]);
        assert_eq!(unified("", "x\n"), ["@@ -1 +1 @@", "+x"]);
        assert!(unified("same\n", "same\n").is_empty());
    }
}
