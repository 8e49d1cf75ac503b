/** Calls that an undo undoes; see `undo_arguments` in sysop-core. */
import type { ChangedFile } from "../wire";
import type { Item, Step } from "./item";

/** Arguments of an undo. Without a call, it undoes what the file tools of a turn changed. */
interface UndoArguments {
  call?: unknown;
  changes?: unknown;
}

/**
 * Returns the calls that `undo`, which follows `before`, undoes; none if it is not an undo. If it names no call, they
 * are of the last turn that it fits, because files may have had the same changes in earlier turns.
 */
export function undoneCalls(before: readonly Item[], undo: Step): string[] {
  if (undo.tool !== "undo") return [];
  const { call, changes } = (undo.arguments ?? {}) as UndoArguments;
  if (typeof call === "string") return [call];
  if (!Array.isArray(changes)) return [];
  const reverted = new Set(changes.map((change) => keyOf(change?.path, change?.before, change?.after_hash)));
  const isReverted = ({ path, before, afterHash }: ChangedFile) =>
    reverted.has(keyOf(path, before, afterHash));
  const calls: string[] = [];
  for (const item of before.toReversed()) {
    const endsTurn = item.kind === "end" || item.kind === "prompt";
    if (endsTurn && calls.length > 0) break;
    if (item.kind !== "step" || item.undone !== undefined || isDirectUndo(item)) continue;
    const changed = item.outcome?.changes ?? [];
    if (changed.length > 0 && changed.every(isReverted)) calls.unshift(item.call);
  }
  return calls;
}

/** Returns true for an undo by a user, which an undo without a call does not undo. */
function isDirectUndo({ tool, origin }: Step): boolean {
  return tool === "undo" && origin !== "model";
}

function keyOf(path: unknown, before: unknown, hash: unknown): string {
  return JSON.stringify([path, before ?? null, hash]);
}
