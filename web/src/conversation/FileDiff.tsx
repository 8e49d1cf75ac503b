/** Changes of a file tool, as removed and added lines. */
import { useMemo } from "react";
import { SafeText } from "../text/Code";
import { type DiffLine, diffLines } from "../text/diff";
import type { FileEdit } from "../text/file-edit";
import { neutralizeLine } from "../text/neutralize";

const SIGNS: Record<DiffLine["side"], string> = { same: "  ", added: "+ ", removed: "- ", skipped: "" };
const CLASSES: Record<DiffLine["side"], string> = {
  same: "",
  added: "added",
  removed: "removed",
  skipped: "skip-mark",
};

export function FileDiff({ edit, id }: { edit: FileEdit; id?: string }) {
  const lines = useMemo(() => diffLines(edit), [edit]);
  const count = (side: string) => lines.filter((line) => line.side === side).length;
  return (
    <section id={id} className="diff" tabIndex={0} aria-label={`Changes to ${neutralizeLine(edit.path)}`}>
      <p className="path">
        {neutralizeLine(edit.path)}{" "}
        <span>
          {edit.old === undefined ? "whole file" : `−${count("removed")}`} +{count("added")}
        </span>
      </p>
      <pre>
        {lines.map(({ side, text }, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines of one edit keep their positions
          <span key={at} className={`row-line ${CLASSES[side]}`}>
            {SIGNS[side]}
            {side === "skipped" ? text : <SafeText text={text} />}
          </span>
        ))}
      </pre>
    </section>
  );
}
