/** Overwrite of a file by a step. */
import { useMemo } from "react";
import type { Step } from "../state/item";
import { editOf } from "../text/file-edit";
import { type Overwrite, overwriteOf } from "../text/overwrite";

/** Returns the overwrite that the step's preview tells of. It stays the same object while the preview does. */
export function useOverwrite({ cardKind, tool, arguments: args, preview }: Step): Overwrite | undefined {
  return useMemo(() => {
    const edit = cardKind === "tool" ? editOf(tool, args) : undefined;
    return edit && overwriteOf(edit, preview);
  }, [cardKind, tool, args, preview]);
}
