/** Calls that an undo undoes; see `undo_arguments` in sysop-core. */
import type { ChangedFile } from "../wire";
import type { Item } from "./item";

/** Arguments of an undo. Without a call, it undoes what the file tools of a turn changed. */
interface UndoArguments {
  call?: unknown;
  changes?: unknown;
}

/** Returns the calls among `items` that `undo` undoes; none if it is not an undo. */
export function undoneCalls(items: readonly Item[], undo: Item | undefined): string[] {
  if (undo?.kind !== "step" || undo.tool !== "undo") return [];
  const { call, changes } = (undo.arguments ?? {}) as UndoArguments;
  if (typeof call === "string") return [call];
  if (!Array.isArray(changes)) return [];
  const reverted = new Set(changes.map((change) => keyOf(change?.path, change?.before, change?.after_hash)));
  const isReverted = ({ path, before, afterHash }: ChangedFile) =>
    reverted.has(keyOf(path, before, afterHash));
  return items.flatMap((item) => {
    const changed = item.kind === "step" ? (item.outcome?.changes ?? []) : [];
    return item.kind === "step" && changed.length > 0 && changed.every(isReverted) ? [item.call] : [];
  });
}

function keyOf(path: unknown, before: unknown, hash: unknown): string {
  return JSON.stringify([path, before ?? null, hash]);
}
