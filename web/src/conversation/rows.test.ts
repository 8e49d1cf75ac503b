import { expect, test } from "vitest";
import type { Item } from "../state/item";
import type { SessionView } from "../state/session-store";
import { emptyTranscript } from "../state/transcript";
import { rowsOf } from "./rows";

const prompt = (id: string): Item => ({ kind: "prompt", id, text: id });
const view = (items: Item[], more: Partial<SessionView> = {}): SessionView => ({
  transcript: { ...emptyTranscript, items },
  status: { state: "open", kind: "socket", why: "", hint: "", final: false },
  caughtUp: true,
  pending: [],
  troubles: [],
  stopping: false,
  answered: new Map(),
  clearedTo: 0,
  showsAll: false,
  mode: "agent",
  ...more,
});
const ids = (shown: SessionView) => rowsOf(shown).map(({ id }) => id);

test("a new chat puts away what was said before, until it is wanted", () => {
  const items: Item[] = [prompt("a"), { kind: "cleared", id: "c" }, prompt("b")];
  expect(ids(view(items))).toEqual(["earlier", "b"]);
  expect(ids(view(items, { showsAll: true }))).toEqual(["a", "b"]);
});

test("a clear puts away what this tab has seen", () => {
  const items = [prompt("a"), prompt("b")];
  expect(ids(view(items, { clearedTo: 2 }))).toEqual(["earlier"]);
  expect(ids(view([...items, prompt("c")], { clearedTo: 2 }))).toEqual(["earlier", "c"]);
});

test("a row is the same object as long as its item is", () => {
  const items = [prompt("a")];
  expect(rowsOf(view(items))[0]).toBe(rowsOf(view([...items, prompt("b")]))[0]);
});
