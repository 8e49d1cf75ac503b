import { afterEach, expect, test, vi } from "vitest";
import type { SessionRow } from "../protocol/api";
import type { LinkState } from "../protocol/session-link";
import { openTitle, parkedState, SessionList, waitingSessions } from "./session-list";
import type { SessionStore, SessionView } from "./session-store";
import { emptyTranscript } from "./transcript";

afterEach(() => vi.unstubAllGlobals());

const row = (sessionId: string, more: Partial<SessionRow> = {}) =>
  ({ sessionId, title: "", ...more }) as SessionRow;
const list = (...rows: SessionRow[]) => ({ rows, problem: undefined });

/** An open session with these prompts. */
function open(
  id: string,
  prompts: string[],
  more: { asks?: boolean; caughtUp?: boolean; state?: LinkState } = {},
): SessionStore {
  const { asks = false, caughtUp = true, state = "open" } = more;
  const items = prompts.map((text, at) => ({ kind: "prompt", id: `prompt-${at}`, text }));
  const transcript = { ...emptyTranscript, items, questions: asks ? [{ id: "q" }] : [] };
  const view = { transcript, caughtUp, status: { state } } as unknown as SessionView;
  return { id, snapshot: () => view } as SessionStore;
}

test("the list is asked for every ten seconds, and once a minute while the page is hidden", async () => {
  vi.useFakeTimers();
  let asked = 0;
  vi.stubGlobal("fetch", async () => {
    asked += 1;
    return new Response("[]", { headers: { "content-type": "application/json" } });
  });
  const page = { visibilityState: "visible", addEventListener: vi.fn(), removeEventListener: vi.fn() };
  vi.stubGlobal("document", page);
  const followed = new SessionList();
  const end = followed.follow();
  await vi.advanceTimersByTimeAsync(9_000);
  await followed.refresh();
  expect(asked).toBe(2);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(asked).toBe(3);
  page.visibilityState = "hidden";
  await vi.advanceTimersByTimeAsync(50_000);
  expect(asked).toBe(3);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(asked).toBe(4);
  end();
  vi.useRealTimers();
});

test("on a slow server, every answer that is newer than the list is shown, and requests do not pile up", async () => {
  vi.useFakeTimers();
  const answers: ((rows: SessionRow[]) => void)[] = [];
  const answer = (resolve: (response: Response) => void) =>
    answers.push((sessions) => resolve(Response.json({ sessions })));
  vi.stubGlobal("fetch", () => new Promise(answer));
  const page = { visibilityState: "visible", addEventListener: vi.fn(), removeEventListener: vi.fn() };
  vi.stubGlobal("document", page);
  const sessions = new SessionList();
  const shown = () => sessions.snapshot().rows?.map(({ sessionId }) => sessionId);
  const ends = [sessions.readAll(), sessions.follow()];
  await vi.advanceTimersByTimeAsync(15_000);
  expect(answers).toHaveLength(1);
  void sessions.refresh(); // after a change
  answers[0]?.([row("a")]);
  await vi.waitFor(() => expect(shown()).toEqual(["a"]));
  void sessions.refresh();
  answers[2]?.([row("c")]);
  await vi.waitFor(() => expect(shown()).toEqual(["c"]));
  answers[1]?.([row("b")]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(shown()).toEqual(["c"]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(answers).toHaveLength(4);
  for (const end of ends) end();
  vi.useRealTimers();
});

test("a session is called by its name in the list, else by its first prompt", () => {
  const store = open("a", ["why is\nit full?", "and now?"]);
  expect(openTitle(list(row("a", { title: "The disk" })), store)).toBe("The disk");
  expect(openTitle(list(row("a"), row("b", { title: "Other" })), store)).toMatch(/^why is.*it full\?$/);
  expect(openTitle({ rows: undefined, problem: undefined }, open("a", []))).toBe("New session");
});

test("a session that began with a command gets its title from the list, which redacts secrets", () => {
  const call = (tool: string, effect: string, command: string) => ({ kind: "step", tool, effect, command });
  const items = [
    call("read_file", "reads", "read_file a"),
    call("bash", "command", "mysql -phunter22\n"),
    { kind: "prompt", text: "why?" },
  ];
  const store = open("a", []);
  Object.assign(store.snapshot().transcript, { items });
  expect(openTitle(list(row("b")), store)).toBe("New session");
  expect(openTitle(list(row("a", { title: "mysql -p[redacted]" })), store)).toBe("mysql -p[redacted]");
});

test("sessions wait by their own connection if they are open, else by the list", () => {
  const rows = list(
    row("a", { state: "waiting", title: "A" }),
    row("b", { state: "running" }),
    row("c", { state: "waiting", title: "C" }),
    row("d", { state: "waiting", title: "D" }),
  );
  const tabs = [
    open("a", []), // answered since the list was read
    open("b", ["restart it"], { asks: true }),
    open("d", [], { caughtUp: false }),
    open("e", ["new here"], { asks: true }),
  ];
  expect(waitingSessions(rows, tabs).map(({ id, title }) => `${id}: ${title}`)).toEqual([
    "e: new here",
    "b: restart it",
    "c: C",
    "d: D",
  ]);
});

test("the newest sessions are requested, and all of them while the list is shown", async () => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (path: string) => {
    asked.push(path.replace(/^.*limit=/, ""));
    return new Response(JSON.stringify({ sessions: [] }));
  });
  const sessions = new SessionList();
  await sessions.refresh();
  const end = sessions.readAll();
  await vi.waitFor(() => expect(sessions.snapshot().rows).toEqual([]));
  end();
  await sessions.refresh();
  expect(asked).toEqual(["100", "1000", "100"]);
});

test("the list tells the state of an open session without a connection", () => {
  const rows = list(row("a", { state: "waiting", title: "A" }), row("b", { state: "waiting" }));
  const [parked, connected] = [open("a", [], { state: "parked" }), open("b", [])];
  expect(waitingSessions(rows, [parked, connected])).toEqual([{ id: "a", title: "A" }]);
  expect([parked, connected].map((store) => parkedState(rows, store))).toEqual(["waiting", undefined]);
});
