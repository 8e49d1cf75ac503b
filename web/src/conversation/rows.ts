/** Selects and orders the items to show. Pure. */
import type { Item } from "../state/item";
import type { SessionView } from "../state/session-store";
import { contextStart } from "../state/transcript";

export type Row =
  | { kind: "earlier"; id: string; count: number; dropped: number }
  | { kind: "item"; id: string; item: Item };

/** Rows by item. Unchanged items keep their row, so that Preact does not render it again. */
const known = new WeakMap<Item, Row>();

function rowOf(item: Item): Row {
  let row = known.get(item);
  if (!row) {
    row = { kind: "item", id: item.id, item };
    known.set(item, row);
  }
  return row;
}

/** Returns the rows of a conversation. Cleared items are one row, which shows them again when clicked. */
export function rowsOf(view: SessionView): Row[] {
  const { transcript, showsAll, clearedTo } = view;
  const { items, dropped } = transcript;
  const start = showsAll
    ? 0
    : Math.min(items.length, Math.max(contextStart(transcript), clearedTo - dropped));
  const rows: Row[] = [];
  if (start > 0 || dropped > 0) rows.push({ kind: "earlier", id: "earlier", count: start, dropped });
  for (let at = start; at < items.length; at += 1) {
    const item = items[at];
    if (item && isShown(item, items[at - 1])) rows.push(rowOf(item));
  }
  return rows;
}

/** Returns true unless the item is the end of a turn without anything to report. */
function isShown(item: Item, before: Item | undefined): boolean {
  if (item.kind === "cleared" || (item.kind === "step" && item.isTold)) return false;
  if (item.kind !== "end" || item.iterations > 0) return true;
  return item.reason === "end_turn" ? Boolean(item.error) : !(item.reason === "failed" && isFailed(before));
}

/** True for a call that no model proposed, whose card says that it failed; see `is_told_by_call` in sysop-core. */
function isFailed(item: Item | undefined): boolean {
  return item?.kind === "step" && item.origin !== "model" && (item.outcome?.status ?? "ok") !== "ok";
}
