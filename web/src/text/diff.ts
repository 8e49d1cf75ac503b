/** A file edit as removed and added lines. */
import { diffArrays } from "diff";
import type { FileEdit } from "./file-edit";

/** Maximum lines to compare; longer text is shown as removed and added as a whole. */
const LINES_MAX = 2_000;
/** Unchanged lines shown around a change. */
const CONTEXT_LINES = 3;

export interface DiffLine {
  side: "same" | "added" | "removed" | "skipped";
  text: string;
}

/** Returns the lines of an edit, exact to the byte: a changed newline at the end of the file has its own line. */
export function diffLines({ old, text }: FileEdit): DiffLine[] {
  const added = linesOf(text).map((line): DiffLine => ({ side: "added", text: line }));
  if (old === undefined) return added;
  const [before, after] = [linesOf(old), linesOf(text)];
  const found: DiffLine[] = [];
  if (Math.max(before.length, after.length) > LINES_MAX) {
    found.push(...before.map((line): DiffLine => ({ side: "removed", text: line })), ...added);
  } else {
    for (const { value, added, removed } of diffArrays(before, after)) {
      const side = added ? "added" : removed ? "removed" : "same";
      found.push(...value.map((line): DiffLine => ({ side, text: line })));
    }
  }
  const [ended, ends] = [old.endsWith("\n"), text.endsWith("\n")];
  if (ended && !ends) found.push({ side: "removed", text: "(newline at end of file)" });
  if (!ended && ends) found.push({ side: "added", text: "(newline at end of file)" });
  return withoutFarLines(found);
}

/** Splits text into lines; a final line end does not start another line. */
export function linesOf(text: string): string[] {
  const all = text.split("\n");
  if (all.length > 1 && all.at(-1) === "") all.pop();
  return all;
}

/** Replaces unchanged lines far from any change with one line that states their count. */
export function withoutFarLines(all: readonly DiffLine[]): DiffLine[] {
  const near = new Set<number>();
  all.forEach(({ side }, at) => {
    if (side === "same") return;
    for (let other = at - CONTEXT_LINES; other <= at + CONTEXT_LINES; other += 1) near.add(other);
  });
  const shown: DiffLine[] = [];
  let skipped = 0;
  const endSkip = () => {
    if (skipped > 0) shown.push({ side: "skipped", text: `⋮ ${skipped} unchanged` });
    skipped = 0;
  };
  all.forEach((line, at) => {
    if (near.has(at)) {
      endSkip();
      shown.push(line);
    } else {
      skipped += 1;
    }
  });
  endSkip();
  return shown;
}
