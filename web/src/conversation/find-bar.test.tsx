// @vitest-environment happy-dom
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { useSessionPart } from "../app/hooks";
import { SessionLink } from "../protocol/session-link";
import { SessionStore } from "../state/session-store";
import { emptyTranscript, fold } from "../state/transcript";
import type { ServerMessage } from "../wire";
import { FindBar } from "./FindBar";
import type { Hit } from "./find-text";
import { rowsOf } from "./rows";

let root: Root;
let store: SessionStore;
const onHit = vi.fn<(hit: Hit | undefined) => void>();
const nothing = () => undefined;
const scroller: { current: HTMLElement | null } = { current: null };

beforeEach(() => {
  store = new SessionStore("s", new SessionLink("s"));
  root = createRoot(document.body.appendChild(document.createElement("div")));
});
afterEach(() => {
  root.unmount();
  document.body.replaceChildren();
  vi.restoreAllMocks();
  onHit.mockReset();
  scroller.current = null;
});

/** A session whose prompts are these texts. */
function prompts(...texts: string[]): void {
  draw(texts.map((content) => ({ type: "user.message", content })));
}

function draw(all: object[]): void {
  const messages = all.map((message, at) => ({ sessionId: "s", seq: at + 1, ...message }));
  const transcript = fold(emptyTranscript, messages as unknown as ServerMessage[]);
  const own = store.snapshot();
  vi.spyOn(store, "snapshot").mockImplementation(() => ({ ...own, transcript, find: open() }));
  const { find } = store.snapshot();
  root.render(find ? <Search /> : null);
}

const open = () => (store as unknown as { view: ReturnType<SessionStore["snapshot"]> }).view.find;

function Search() {
  const find = useSessionPart(store, open);
  if (!find) return null;
  const rows = rowsOf(store.snapshot());
  return (
    <FindBar
      store={store}
      find={find}
      rows={rows}
      scroller={scroller}
      reveal={nothing}
      arrived={nothing}
      firstInView={nothing}
      onHit={onHit}
    />
  );
}

const field = () => document.querySelector<HTMLInputElement>(".find .field");
const status = () => document.querySelector(".find [role=status]")?.textContent;

test("a hit that is shown stays the current one while newer ones arrive", async () => {
  store.find({ words: "disk", ofList: true });
  prompts("disk", "x disk");
  await vi.waitUntil(() => status() === "2 of 2");
  const [shown] = onHit.mock.lastCall ?? [];
  prompts("disk", "x disk", "disk disk");
  await vi.waitUntil(() => status() === "2 of 4");
  expect(onHit.mock.lastCall?.[0]).toEqual(shown);
});

test("no match is no proof where output is truncated", async () => {
  const call = { toolCallId: "c", name: "bash", arguments: { command: "make" } };
  const finished = { type: "tool.finished", ...call, status: "ok", output: "a", truncated: true };
  store.find({ words: "make", ofList: false });
  draw([{ type: "tool.call", ...call, origin: "model" }, finished]);
  await vi.waitUntil(() => status() === "1 of 1");
  store.find({ words: "error", ofList: true });
  await vi.waitUntil(() => status() === "No matches; truncated output not searched");
});

test("a search that is closed before its hit is in view marks nothing", async () => {
  const list = document.body.appendChild(document.createElement("div"));
  list.innerHTML = '<div class="row" data-index="0"></div>';
  scroller.current = list;
  const isMarked = () => list.querySelector("[data-found]") !== null;
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  store.find({ words: "disk", ofList: false });
  prompts("disk");
  await vi.waitUntil(isMarked);
  root.render(null);
  await vi.waitUntil(() => !field());
  await frame();
  await frame();
  expect(isMarked()).toBe(false);
});

test("another search of the list shows its newest hit, wherever the one before was", async () => {
  store.find({ words: "disk", ofList: false });
  prompts("disk a", "disk b", "disk c a");
  await vi.waitUntil(() => status() === "3 of 3");
  document.querySelector<HTMLButtonElement>(".find .up")?.click();
  await vi.waitUntil(() => status() === "2 of 3");
  store.find({ words: "a disk", ofList: true });
  await vi.waitUntil(() => status() === "4 of 4");
});

test("the words are there again in another tab's place, without the focus", async () => {
  store.find({ words: "", ofList: false });
  prompts("disk");
  const box = await vi.waitUntil(field);
  await vi.waitUntil(() => document.activeElement === box);
  box.value = "disk";
  box.dispatchEvent(new Event("input", { bubbles: true }));
  await vi.waitUntil(() => status() === "1 of 1");
  root.render(null);
  await vi.waitUntil(() => !field());
  prompts("disk");
  await vi.waitUntil(() => status() === "1 of 1");
  expect(field()?.value).toBe("disk");
  expect(document.activeElement).toBe(document.body);
  store.find({ words: "", ofList: false });
  await vi.waitUntil(() => document.activeElement === field());
  expect(field()?.value).toBe("disk");
});
