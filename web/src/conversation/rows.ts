/** Which items are shown, in which order, and what is put away. Pure. */
import type { Item } from "../state/item";
import type { SessionView } from "../state/session-store";
import { contextStart } from "../state/transcript";

export type Row =
  | { kind: "earlier"; id: string; count: number; dropped: number }
  | { kind: "item"; id: string; item: Item };

/** The row of an item is the same object for as long as the item is: what did not change is not drawn again. */
const known = new WeakMap<Item, Row>();

function rowOf(item: Item): Row {
  let row = known.get(item);
  if (!row) {
    row = { kind: "item", id: item.id, item };
    known.set(item, row);
  }
  return row;
}

/** The rows of a conversation. What a new chat or a clear put away is one row that brings it back. */
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

/** The end of a turn is shown where there is something to say of it. */
function isShown(item: Item): boolean {
  return (
    item.kind !== "cleared" &&
    !(item.kind === "end" && item.reason === "end_turn" && !item.error && item.iterations === 0)
  );
}
