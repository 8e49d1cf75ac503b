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
  for (const item of items.slice(start)) if (isShown(item)) rows.push(rowOf(item));
  return rows;
}

/** Returns true unless the item is the end of a turn without anything to report. */
function isShown(item: Item): boolean {
  return (
    item.kind !== "cleared" &&
    !(item.kind === "end" && item.reason === "end_turn" && !item.error && item.iterations === 0)
  );
}
