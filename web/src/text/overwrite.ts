/** The change that a write makes to the present file, as far as the preview of its proposal tells. */
import { type DiffLine, linesOf, withoutFarLines } from "./diff";
import type { FileEdit } from "./file-edit";
import { neutralizeLine } from "./neutralize";

/** A write that replaces the text of a file. */
export interface Overwrite {
  verb: "overwrites" | "empties";
  /** Numbers of added and removed lines; undefined if the preview does not tell them. */
  counts: { added: number; removed: number } | undefined;
  /** The change, as far as the preview has it; empty if it has none. */
  lines: readonly DiffLine[];
  /** True if the lines are the whole change. */
  whole: boolean;
}

/** Returns the summary lines of a preview, and those of its diff. */
export function splitPreview(preview: readonly string[]): { summary: string[]; diff: string[] } {
  const first = preview.findIndex((line) => line.startsWith("@@ ") || line.startsWith("--- "));
  const cut = first < 0 ? preview.length : first;
  return { summary: preview.slice(0, cut), diff: preview.slice(cut) };
}

/** Returns the overwrite that a preview tells of; undefined if it tells of none. */
export function overwriteOf(edit: FileEdit, preview: readonly string[]): Overwrite | undefined {
  if (edit.old !== undefined) return undefined;
  const { summary, diff } = splitPreview(preview);
  const verb = summary.map((line) => /(?:^|: |, )(overwrites|empties) /.exec(line)?.[1]).find(Boolean);
  if (verb !== "overwrites" && verb !== "empties") return undefined;
  const counts = toldCounts(summary.at(-1) ?? "");
  const present = linesOf(edit.text);
  const changes = counts && presentChanges(present, diff, counts);
  if (changes) return { verb, counts, lines: withoutFarLines(applied(present, changes)), whole: true };
  return { verb, counts, lines: previewedLines(diff), whole: false };
}

/** Returns the lines of a preview's diff. Its headers and notes count as skipped lines. */
export function previewedLines(diff: readonly string[]): DiffLine[] {
  return diff.map((line): DiffLine => {
    const text = line.slice(1);
    if (line.startsWith("--- ")) return { side: "skipped", text: neutralizeLine(line) };
    if (line.startsWith("+")) return { side: "added", text };
    if (line.startsWith("-")) return { side: "removed", text };
    return line.startsWith(" ") ? { side: "same", text } : { side: "skipped", text: neutralizeLine(line) };
  });
}

/** Lines of the present file that a write replaces. */
interface PresentChange {
  /** Index of the first changed line in the present file. */
  oldAt: number;
  /** Index of the first changed line in the new text. */
  newAt: number;
  removed: string[];
  added: number;
}

/** Returns the numbers of added and removed lines that the summary of a write tells. */
function toldCounts(summary: string): { added: number; removed: number } | undefined {
  const [, added, removed] = /: \+(\d+) −(\d+) lines$/.exec(summary) ?? [];
  return added && removed ? { added: Number(added), removed: Number(removed) } : undefined;
}

/**
 * Reads the change of the present file from the diff of a preview. Returns undefined unless the diff has all of it and
 * fits the new text: a preview is shortened, and redacts secrets. Added lines that it omits at its end are in the new
 * text. See `present_changes` in sysop-term.
 */
function presentChanges(
  next: readonly string[],
  diff: readonly string[],
  told: { added: number; removed: number },
): PresentChange[] | undefined {
  const [, count] = /^… ([\d,]+) more lines?$/.exec(diff.at(-1) ?? "") ?? [];
  const omitted = count === undefined ? 0 : Number(count.replaceAll(",", ""));
  const changes: PresentChange[] = [];
  let [oldAt, newAt, followsHeader] = [0, 0, false];
  for (const line of count === undefined ? diff : diff.slice(0, -1)) {
    const [, before, after] = /^@@ -(\d+) \+(\d+) @@$/.exec(line) ?? [];
    if (before && after) {
      // The header names the first changed line. Its line of context, if any, comes before that.
      [oldAt, newAt, followsHeader] = [Number(before) - 1, Number(after) - 1, true];
      continue;
    }
    const [sign, text] = [line.slice(0, 1), line.slice(1)];
    const at = sign === " " && followsHeader ? newAt - 1 : newAt;
    const there = next[at];
    if (sign !== "-" && (there === undefined || neutralizeLine(there) !== text)) return undefined;
    let change = changes.at(-1);
    const goesOn =
      change && change.oldAt + change.removed.length === oldAt && change.newAt + change.added === newAt;
    if (sign !== " " && !goesOn) {
      change = { oldAt, newAt, removed: [], added: 0 };
      changes.push(change);
    }
    if (sign === " ") {
      if (!followsHeader) [oldAt, newAt] = [oldAt + 1, newAt + 1];
    } else if (sign === "-" && change) {
      change.removed.push(withTabs(text));
      oldAt += 1;
    } else if (sign === "+" && change) {
      change.added += 1;
      newAt += 1;
    } else {
      return undefined;
    }
    followsHeader = false;
  }
  const last = changes.at(-1);
  if (!last) return undefined;
  if (omitted > 0) {
    // They are added lines and no others, which follow each other, only if their number is all that is missing.
    if (last.newAt + last.added !== newAt || newAt + omitted > next.length) return undefined;
    last.added += omitted;
  }
  const sum = (count: (change: PresentChange) => number) =>
    changes.reduce((total, change) => total + count(change), 0);
  const isWhole =
    sum(({ added }) => added) === told.added && sum(({ removed }) => removed.length) === told.removed;
  return isWhole ? changes : undefined;
}

/** Returns a line of a preview with the tabs that indent it, which the preview escapes. */
function withTabs(text: string): string {
  return text.replace(/^(?:\\t)+/, (tabs) => "\t".repeat(tabs.length / 2));
}

/** Returns all lines of the new text, and the removed ones in their places. */
function applied(next: readonly string[], changes: readonly PresentChange[]): DiffLine[] {
  const of = (side: DiffLine["side"], texts: readonly string[]) =>
    texts.map((text): DiffLine => ({ side, text }));
  const all: DiffLine[] = [];
  let at = 0;
  for (const { newAt, removed, added } of changes) {
    all.push(...of("same", next.slice(at, newAt)), ...of("removed", removed));
    at = newAt + added;
    all.push(...of("added", next.slice(newAt, at)));
  }
  return [...all, ...of("same", next.slice(at))];
}
