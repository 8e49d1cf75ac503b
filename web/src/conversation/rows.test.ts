import { expect, test } from "vitest";
import type { Item } from "../state/item";
import type { SessionView } from "../state/session-store";
import { emptyTranscript } from "../state/transcript";
import { rowsOf } from "./rows";

const prompt = (id: string): Item => ({
  kind: "prompt",
  id,
  text: id,
  by: undefined,
  named: false,
});
const view = (items: Item[], more: Partial<SessionView> = {}): SessionView => ({
  transcript: { ...emptyTranscript, items },
  status: { state: "open", kind: "socket", why: "", hint: "", final: false },
  caughtUp: true,
  pending: [],
  typed: [],
  ownQueued: [],
  troubles: [],
  stopping: false,
  answered: new Map(),
  clearedTo: 0,
  showsAll: false,
  mode: "agent",
  sends: 0,
  begun: new Map(),
  asked: undefined,
  jobsRead: new Map(),
  find: undefined,
  ...more,
});
const ids = (shown: SessionView) => rowsOf(shown).map(({ id }) => id);

test("a new chat hides earlier items until they are requested", () => {
  const items: Item[] = [prompt("a"), { kind: "cleared", id: "c" }, prompt("b")];
  expect(ids(view(items))).toEqual(["earlier", "b"]);
  expect(ids(view(items, { showsAll: true }))).toEqual(["a", "b"]);
});

test("a clear hides what this tab has shown", () => {
  const items = [prompt("a"), prompt("b")];
  expect(ids(view(items, { clearedTo: 2 }))).toEqual(["earlier"]);
  expect(ids(view([...items, prompt("c")], { clearedTo: 2 }))).toEqual(["earlier", "c"]);
});

test("a row stays the same object while its item does", () => {
  const items = [prompt("a")];
  expect(rowsOf(view(items))[0]).toBe(rowsOf(view([...items, prompt("b")]))[0]);
});

test("a failure that the card of a typed command tells is not told again", () => {
  const step = { kind: "step", id: "s", origin: "typed", outcome: { status: "failed" } };
  const end = {
    kind: "end",
    id: "e",
    reason: "failed",
    error: "the command exited with code 1",
    iterations: 0,
  };
  const shown = (call: object, how: object = {}) =>
    ids(
      view([
        { ...step, ...call },
        { ...end, ...how },
      ] as unknown as Item[]),
    );
  expect(shown({})).toEqual(["s"]);
  expect(shown({ outcome: { status: "ok" } })).toEqual(["s", "e"]);
  expect(shown({ outcome: undefined })).toEqual(["s", "e"]);
  expect(shown({ origin: "model" })).toEqual(["s", "e"]);
  expect(shown({}, { iterations: 2 })).toEqual(["s", "e"]);
  expect(shown({}, { reason: "paused" })).toEqual(["s", "e"]);
});
