/** Changes of a file tool, as removed and added lines. */
import { useMemo } from "react";
import { SafeText } from "../text/Code";
import { type DiffLine, diffLines } from "../text/diff";
import type { FileEdit } from "../text/file-edit";
import { neutralizeLine } from "../text/neutralize";
import type { Overwrite } from "../text/overwrite";

const SIGNS: Record<DiffLine["side"], string> = { same: "  ", added: "+ ", removed: "- ", skipped: "" };
const CLASSES: Record<DiffLine["side"], string> = {
  same: "",
  added: "added",
  removed: "removed",
  skipped: "skip-mark",
};

interface Props {
  edit: FileEdit;
  /** The change of the present file, if the edit replaces all of its text. */
  overwrite?: Overwrite | undefined;
  id?: string;
}

export function FileDiff({ edit, overwrite, id }: Props) {
  const lines = useMemo(() => diffLines(edit), [edit]);
  return (
    <section id={id} className="diff" tabIndex={0} aria-label={`Changes to ${neutralizeLine(edit.path)}`}>
      <p className="path">
        {overwrite && <strong>{overwrite.verb} </strong>}
        {neutralizeLine(edit.path)} <span>{extent(edit, lines, overwrite)}</span>
      </p>
      {!overwrite && <DiffRows lines={lines} />}
      {overwrite && overwrite.lines.length > 0 && <DiffRows lines={overwrite.lines} />}
      {overwrite?.whole && (
        <details className="details">
          <summary>The whole new text</summary>
          <DiffRows lines={lines} />
        </details>
      )}
      {overwrite?.whole === false && edit.text !== "" && (
        <>
          <p className="meta">The whole new text:</p>
          <DiffRows lines={lines} />
        </>
      )}
    </section>
  );
}

/** Numbers of added and removed lines. */
function extent(edit: FileEdit, lines: readonly DiffLine[], overwrite: Overwrite | undefined): string {
  const count = (side: string) => lines.filter((line) => line.side === side).length;
  if (overwrite?.counts) return `+${overwrite.counts.added} −${overwrite.counts.removed}`;
  if (overwrite) return edit.text === "" ? "" : `with ${count("added")} lines`;
  return edit.old === undefined ? `whole file +${count("added")}` : `+${count("added")} −${count("removed")}`;
}

export function DiffRows({ lines }: { lines: readonly DiffLine[] }) {
  return (
    <pre>
      {lines.map(({ side, text }, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines of one edit keep their positions
        <span key={at} className={`row-line ${CLASSES[side]}`}>
          {SIGNS[side]}
          {side === "skipped" ? text : <SafeText text={text} />}
        </span>
      ))}
    </pre>
  );
}
