// @vitest-environment happy-dom
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { MeContext } from "../app/me";
import { SessionLink } from "../protocol/session-link";
import { type CallPlace, placeOf } from "../state/call-place";
import type { Step } from "../state/item";
import { SessionStore } from "../state/session-store";
import { emptyTranscript, fold, pendingApproval } from "../state/transcript";
import type { ServerMessage } from "../wire";
import { ApprovalCard } from "./ApprovalCard";
import { useSecondTap } from "./settled";

let root: Root;
/** Tells the card that the end of its proposal is in view, or below. */
let view: ((isIntersecting: boolean) => void) | undefined;
/** The same for each part of the card with an end, in the order of the card. */
let views: ((isIntersecting: boolean) => void)[] = [];
let store: SessionStore;
const leave = vi.fn();
const done = vi.fn();
const write = vi.fn();
const insert = vi.fn();

beforeEach(() => {
  sessionStorage.clear();
  view = undefined;
  views = [];
  vi.stubGlobal(
    "IntersectionObserver",
    class {
      constructor(private readonly tell: (entries: object[]) => void) {
        view = (isIntersecting) =>
          this.tell([{ isIntersecting, boundingClientRect: { bottom: 900, width: 1 } }]);
        views.push(view);
      }
      observe() {}
      disconnect() {}
    },
  );
  store = new SessionStore("s", new SessionLink("s"));
  root = createRoot(document.body.appendChild(document.createElement("div")));
});
afterEach(() => {
  root.unmount();
  document.body.replaceChildren();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  leave.mockReset();
  done.mockReset();
  write.mockReset();
  insert.mockReset();
});

/** Returns a proposal after an assessment of these edits. */
function proposed(name: string, args: object, more: object = {}, edits: string[] = []): Step {
  const request = {
    type: "approval.request",
    toolCallId: "c",
    name,
    arguments: args,
    reason: "",
    risk: "changes",
  };
  const assessed = edits.map((command) => ({
    type: "approval.preview",
    toolCallId: "c",
    command,
    preview: [],
    risk: "changes",
  }));
  const messages = [{ command: "", ...request, ...more }, ...assessed].map((message) => ({
    sessionId: "s",
    seq: 1,
    ...message,
  }));
  const step = pendingApproval(fold(emptyTranscript, messages as unknown as ServerMessage[]));
  if (!step) throw new Error("nothing is proposed");
  return { ...step, effect: name === "bash" ? "command" : undefined };
}

function cardOf(step: Step, host: string, place?: CallPlace) {
  return (
    <ApprovalCard
      store={store}
      step={step}
      host={host}
      online
      sent={false}
      place={place}
      leave={leave}
      done={done}
      prompt={{ write, insert }}
    />
  );
}

async function draw(step: Step, place?: CallPlace): Promise<HTMLElement> {
  root.render(cardOf(step, "web1", place));
  return (await vi.waitUntil(() => document.querySelector(".review"), { timeout: 10_000 })) as HTMLElement;
}

const button = (start: string) =>
  [...document.querySelectorAll("button")].find(({ textContent }) => textContent?.startsWith(start));
const field = () =>
  vi.waitUntil(() => document.querySelector<HTMLTextAreaElement>(".field:not(pre)"), { timeout: 10_000 });

async function fill(text: string): Promise<HTMLTextAreaElement> {
  const box = (await field()) as HTMLTextAreaElement;
  box.value = text;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  await vi.waitUntil(() => box.value === text);
  return box;
}

/** Tells the card about its end, with the observer of what it shows now. */
async function tellEnd(inView: boolean): Promise<(inView: boolean) => void> {
  await new Promise((done) => setTimeout(done));
  const scroll = await vi.waitUntil(() => view, { timeout: 10_000 });
  scroll(inView);
  return scroll;
}

function press(box: Element, key: string, more: KeyboardEventInit = {}): boolean {
  return box.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
}

test("in an edit of several lines, Enter is a new line and Ctrl+Enter runs", async () => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  await draw(proposed("bash", { command: "a" }, { command: "a" }, ["b\nc"]));
  button("Edit")?.click();
  const box = await fill("b\nc");
  await tellEnd(true);
  await vi.waitUntil(() => button("Run edited")?.textContent === "Run edited Ctrl+Enter", {
    timeout: 10_000,
  });
  await vi.waitUntil(() => button("Run edited")?.disabled === false);
  expect(press(box, "Enter")).toBe(true);
  expect(decide).not.toHaveBeenCalled();
  expect(press(box, "Enter", { ctrlKey: true })).toBe(false);
  expect(decide).toHaveBeenCalledWith("c", "allow", { command: "b\nc" });
});

test("an edit and a reason that were left are there again on the same card", async () => {
  await draw(proposed("bash", { command: "a" }, { command: "a" }));
  button("Edit")?.click();
  press(await fill("a -v"), "Escape");
  await vi.waitUntil(() => button("Reject"), { timeout: 10_000 });
  button("Reject")?.click();
  press(await fill("too risky"), "Escape");
  await vi.waitUntil(() => button("Edit"), { timeout: 10_000 });
  button("Edit")?.click();
  expect(((await field()) as HTMLTextAreaElement).value).toBe("a -v");
  press((await field()) as Element, "Escape");
  await vi.waitUntil(() => button("Reject"), { timeout: 10_000 });
  button("Reject")?.click();
  expect(((await field()) as HTMLTextAreaElement).value).toBe("too risky");
});

/** A command whose end is not in view, edited to another text. */
async function drawUnread(edits: string[]): Promise<HTMLTextAreaElement> {
  await draw(proposed("bash", { command: LONG }, { command: LONG }, edits));
  await tellEnd(false);
  await vi.waitUntil(() => button("Keep reading"), { timeout: 10_000 });
  button("Edit")?.click();
  const box = (await field()) as HTMLTextAreaElement;
  await tellEnd(false);
  return box;
}

const LONG = "echo 1\necho 2\nrm -r x";

test.each([
  ["unchanged", LONG],
  ["with a change elsewhere", LONG.replace("1", "one")],
])("a command that was not read does not run from its field either, %s", async (_, text) => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const box = await drawUnread([text]);
  expect([box.value, box.selectionStart, document.activeElement]).toEqual([LONG, 0, box]);
  const body = document.querySelector(".card-body") as HTMLElement;
  const scrolled = vi.spyOn(body, "scrollBy").mockImplementation(() => undefined);
  await fill(text);
  await tellEnd(false);
  await vi.waitUntil(() => button("Keep reading")?.textContent?.endsWith("Ctrl+Enter"), { timeout: 10_000 });
  press(box, "Enter", { ctrlKey: true });
  expect([scrolled.mock.calls.length, decide.mock.calls]).toEqual([1, []]);
  expect(document.activeElement).toBe(box);
  await tellEnd(true);
  await vi.waitUntil(() => button("Run")?.disabled === false, { timeout: 10_000 });
  press(box, "Enter", { ctrlKey: true });
  const edit = text === LONG ? {} : { command: text };
  expect(decide).toHaveBeenCalledExactlyOnceWith("c", "allow", edit);
});

test("a short text in the field does not count as the long command that returns to it", async () => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const box = await drawUnread(["ls"]);
  await fill("ls");
  await tellEnd(true);
  await vi.waitUntil(() => button("Run edited")?.disabled === false, { timeout: 10_000 });
  await fill(LONG);
  await tellEnd(false);
  await vi.waitUntil(() => button("Keep reading"), { timeout: 10_000 });
  press(box, "Enter", { ctrlKey: true });
  expect(decide).not.toHaveBeenCalled();
});

test("what is told late about a text in the field does not count for the proposal", async () => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const box = await drawUnread(["ls"]);
  await fill("ls");
  const late = await tellEnd(false);
  press(box, "Escape");
  await vi.waitUntil(() => button("Reject"), { timeout: 10_000 });
  late(true);
  await tellEnd(false);
  button("Edit")?.click();
  press(await fill(LONG), "Enter", { ctrlKey: true });
  await tellEnd(false);
  await vi.waitUntil(() => button("Keep reading"), { timeout: 10_000 });
  expect([button("Run"), decide.mock.calls]).toEqual([undefined, []]);
});

test("an edit of a proposal whose preview came late hides nothing that must be read again", async () => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const command = "rm -r a";
  const step = proposed("bash", { command }, { command });
  await draw(step);
  const first = await vi.waitUntil(() => view);
  first(true);
  await vi.waitUntil(() => button("Run")?.disabled === false);
  await draw({ ...step, preview: ["removes 900 files"] });
  const scroll = await vi.waitUntil(() => (view === first ? undefined : view));
  scroll(false);
  await vi.waitUntil(() => button("Keep reading"));
  button("Edit")?.click();
  const box = (await field()) as HTMLTextAreaElement;
  const ofEdit = await vi.waitUntil(() => (view === scroll ? undefined : view));
  ofEdit(false);
  await vi.waitUntil(() => button("Keep reading"));
  press(box, "Enter");
  expect(decide).not.toHaveBeenCalled();
});

test("a card that goes gives its focus to the prompt", async () => {
  const card = await draw(proposed("bash", { command: "ls" }, { command: "ls" }));
  card.focus();
  root.render(null);
  await vi.waitUntil(() => done.mock.calls.length > 0);
  await draw(proposed("bash", { command: "ls" }, { command: "ls" }));
  const elsewhere = document.body.appendChild(document.createElement("textarea"));
  elsewhere.focus();
  root.render(null);
  await vi.waitUntil(() => !document.querySelector(".review"));
  expect(done).toHaveBeenCalledOnce();
});

test("the hosts that the last call did not reach are named", async () => {
  const hosts = [
    { host: "web2", status: "failed", unreachable: "web2: no route to host; check the address" },
  ];
  const ended = { type: "tool.finished", sessionId: "s", seq: 1, toolCallId: "b", name: "bash", hosts };
  const transcript = fold(emptyTranscript, [{ ...ended, status: "failed", output: "" } as never]);
  vi.spyOn(store, "snapshot").mockReturnValue({ ...store.snapshot(), transcript });
  root.render(cardOf(proposed("bash", { command: "ls" }, { command: "ls" }), "web1, web2"));
  const card = await vi.waitUntil(() => document.querySelector(".review"));
  expect(card.querySelector(".warning")?.textContent).toBe("! web2: no route to host");
});

test("the hosts that cannot be reached are named once, and instead of those of earlier calls", async () => {
  const why = "web2: connection refused; nothing will run there";
  const findings = [{ start: 0, end: 0, class: "read_only", why }];
  const hosts = [{ host: "web1", status: "failed", unreachable: "web1: no route to host" }];
  const ended = { type: "tool.finished", sessionId: "s", seq: 1, toolCallId: "b", name: "bash", hosts };
  const transcript = fold(emptyTranscript, [{ ...ended, status: "failed", output: "" } as never]);
  vi.spyOn(store, "snapshot").mockReturnValue({ ...store.snapshot(), transcript });
  root.render(cardOf(proposed("bash", { command: "ls" }, { command: "ls", findings }), "web1, web2"));
  const card = await vi.waitUntil(() => document.querySelector(".review"));
  expect([...card.querySelectorAll(".warning")].map(({ textContent }) => textContent)).toEqual([`! ${why}`]);
  expect(card.querySelector(".findings")).toBeNull();
});

test("the hosts that cannot be reached since an edit are named", async () => {
  const why = "web2: connection refused; nothing will run there";
  const findings = [{ start: 0, end: 0, class: "read_only" as const, why }];
  const edits = new Map([["b", { preview: [], risk: "changes" as const, findings }]]);
  const card = await draw({ ...proposed("bash", { command: "a" }, { command: "a" }), edits });
  expect(card.querySelector(".warning")).toBeNull();
  button("Edit")?.click();
  await fill("b");
  const warning = await vi.waitUntil(() => card.querySelector(".warning"), { timeout: 10_000 });
  expect(warning.textContent).toBe(`! ${why}`);
});

test("an edit is announced only once there is one", async () => {
  const card = await drawRead("changes");
  button("Edit")?.click();
  await field();
  await vi.waitUntil(() => button("Run")?.textContent === "Run Enter", { timeout: 10_000 });
  expect(card.textContent).not.toContain("edit");
  await fill("a -v");
  await vi.waitUntil(() => button("Run edited"), { timeout: 10_000 });
  expect(card.textContent).toContain("The model is told about the edit.");
});

test("Enter reads on while the end is not in view, and runs only after it has been", async () => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const card = await draw(proposed("bash", { command: LONG }, { command: LONG }));
  const scroll = await tellEnd(false);
  const more = await vi.waitUntil(() => button("Keep reading"), { timeout: 10_000 });
  expect(more.textContent).toBe("Keep reading (1 page) Enter");
  const body = card.querySelector(".card-body") as HTMLElement;
  const scrolled = vi.spyOn(body, "scrollBy").mockImplementation(() => scroll(true));
  const now = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_000);
  press(card, "Enter", { repeat: true });
  expect(scrolled).not.toHaveBeenCalled();
  press(card, "Enter");
  expect(scrolled).toHaveBeenCalledOnce();
  await vi.waitUntil(() => button("Run"));
  press(card, "Enter");
  expect(decide).not.toHaveBeenCalled();
  await vi.waitUntil(() => button("Run")?.disabled === false, { timeout: 10_000 });
  now.mockReturnValue(performance.now() + 1_000);
  press(card, "Enter");
  expect(decide).toHaveBeenCalledExactlyOnceWith("c", "allow");
});

test("Keep reading gives the focus to the card, and leaves out what cannot be answered yet", async () => {
  const covers = { exact: { command: "a" } };
  const card = await draw(proposed("bash", { command: "a" }, { command: "a", covers, always: "[[rule]]" }));
  await tellEnd(false);
  const more = await vi.waitUntil(() => button("Keep reading"), { timeout: 10_000 });
  const names = () => [...document.querySelectorAll("footer button")].map(({ textContent }) => textContent);
  expect(names()).toEqual(["Keep reading (1 page) Enter", "Edit e", "Reject r"]);
  more.focus();
  more.click();
  expect(document.activeElement).toBe(card);
  await tellEnd(true);
  await vi.waitUntil(() => names().length === 5, { timeout: 10_000 });
});

test("a click on Run gives the focus to the prompt", async () => {
  vi.spyOn(store, "decide").mockImplementation(() => undefined);
  await draw(proposed("bash", { command: "a" }, { command: "a" }));
  const scroll = await vi.waitUntil(() => view);
  scroll(true);
  await vi.waitUntil(() => button("Run")?.disabled === false);
  button("Run")?.click();
  expect(done).toHaveBeenCalledOnce();
});

test("no answer runs a command before its end has been in view", async () => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const card = await draw(proposed("bash", { command: "a" }, { command: "a", risk: "dangerous" }));
  const scroll = await vi.waitUntil(() => view);
  scroll(false);
  const more = await vi.waitUntil(() => button("Keep reading"));
  const body = card.querySelector(".card-body") as HTMLElement;
  const scrolled = vi.spyOn(body, "scrollBy").mockImplementation(() => undefined);
  more.click();
  press(card, "End");
  press(card, "Home");
  const [page, end, home] = scrolled.mock.calls.map(([to]) => (to as ScrollToOptions).top);
  expect(page).toBeGreaterThan(0);
  expect([end, home]).toEqual([body.scrollHeight, -body.scrollHeight]);
  expect(decide).not.toHaveBeenCalled();
  const now = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_000);
  press(card, "Y");
  press(card, "Enter");
  expect(decide).not.toHaveBeenCalled();
  scroll(true);
  scroll(false); // what was read may be scrolled away
  await vi.waitUntil(() => button("Run"));
  now.mockReturnValue(performance.now() + 2_000);
  press(card, "Y");
  expect(decide).not.toHaveBeenCalled();
  await vi.waitUntil(() => button("Run")?.textContent === "Run Enter");
  press(card, "Enter");
  expect(decide).toHaveBeenCalledWith("c", "allow");
});

const NOTE = { text: "It runs nginx.\nNot\u001b apache." };

test.each<[string, object, string]>([
  ["send_keys", { keys: "sudo reboot\r" }, "Press keys"],
  ["remember", NOTE, "Save"],
  ["write_file", { path: "f", content: "one\n" }, "Apply"],
  ["edit_file", { path: "f", old_string: "a", new_string: "b" }, "Apply"],
  ["mcp_deploy", { target: "web1" }, "Run"],
  ["undo", { step: 1 }, "Undo"],
])("a proposal of %s is allowed only after its end has been in view", async (tool, args, yes) => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const covers = { tool: { name: tool } };
  const card = await draw(proposed(tool, args, { covers }));
  const scroll = await vi.waitUntil(() => view, { timeout: 10_000 });
  scroll(false);
  await vi.waitUntil(() => button("Keep reading"), { timeout: 10_000 });
  vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_000);
  press(card, "Enter");
  button("Allow for session")?.click();
  expect([button(yes), decide.mock.calls]).toEqual([undefined, []]);
  scroll(true);
  await vi.waitUntil(() => button(yes)?.disabled === false, { timeout: 10_000 });
  button(yes)?.click();
  expect(decide).toHaveBeenCalledExactlyOnceWith("c", "allow");
});

test("the findings that must be read are the last ones before the end, the worst next to it", async () => {
  const command = "touch a b c d e; sh x; rm y";
  const of = (part: string, risk: string, why: string) => {
    const start = command.indexOf(part);
    return { start, end: start + part.length, class: risk, why };
  };
  const touched = [..."abde", "c d"].map((part) => of(part, "changes", "creates a file"));
  const findings = [of("rm y", "dangerous", "deletes"), ...touched, of("sh x", "opaque", "runs a script")];
  const card = await draw(proposed("bash", { command }, { command, findings, preview: ["removes 1 file"] }));
  const reading = card.querySelector(".to-read");
  expect([...(reading?.children ?? [])].map(({ className }) => className)).toEqual([
    "what command",
    "effect",
    "findings",
    "end-mark",
  ]);
  const rows = [...(reading?.querySelectorAll(".findings li") ?? [])];
  expect(rows.map(({ className, textContent }) => `${className}: ${textContent}`)).toEqual([
    "opaque: sh x runs a script",
    "dangerous: rm y deletes",
  ]);
  const others = card.querySelector(".card-body > .details .findings");
  expect(others?.textContent?.trim()).toBe("creates a file: a, b, d and 2 more");
});

test("the findings of a dangerous edit must be read", async () => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const findings = [{ start: 0, end: 2, class: "dangerous" as const, why: "deletes files" }];
  const card = await draw(proposed("bash", { command: "rm x" }, { command: "rm x", findings }));
  const reading = card.querySelector(".to-read");
  expect(reading?.querySelector(".findings")?.textContent).toContain("deletes files");
  (await vi.waitUntil(() => view, { timeout: 10_000 }))(true);
  await vi.waitUntil(() => button("Run")?.disabled === false, { timeout: 10_000 });
  button("Edit")?.click();
  await fill("rm y");
  const edited = {
    type: "approval.preview",
    toolCallId: "c",
    command: "rm y",
    preview: [],
    risk: "dangerous",
  };
  const step = proposed("bash", { command: "rm x" }, { command: "rm x", findings }, ["rm y"]);
  const edits = new Map([["rm y", { ...edited, risk: "dangerous" as const, findings }]]);
  root.render(cardOf({ ...step, edits }, "web1"));
  await vi.waitUntil(() => document.querySelector(".risk.dangerous"), { timeout: 10_000 });
  view?.(false);
  await vi.waitUntil(() => button("Keep reading"), { timeout: 10_000 });
  expect(button("Run edited")).toBeUndefined();
  view?.(true);
  await vi.waitUntil(() => button("Run edited")?.disabled === false, { timeout: 10_000 });
  button("Run edited")?.click();
  expect(decide).toHaveBeenCalledExactlyOnceWith("c", "allow", { command: "rm y" });
});

test("in a dangerous edit, Enter names the keys that run it, and Tab leads to its button", async () => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const step = proposed("bash", { command: "a" }, { command: "a" });
  const edits = new Map([["rm y", { preview: [], risk: "dangerous" as const, findings: [] }]]);
  await draw({ ...step, edits });
  button("Edit")?.click();
  const box = await fill("rm y");
  await tellEnd(true);
  await vi.waitUntil(() => button("Run edited")?.disabled === false, { timeout: 10_000 });
  expect(button("Run edited")?.textContent).toBe("Run edited Tab, Enter");
  expect(document.body.textContent).not.toContain("Press Tab");
  press(box, "Enter");
  await vi.waitUntil(() => document.body.textContent?.includes("Press Tab, then Enter, to run"));
  expect(decide).not.toHaveBeenCalled();
  expect(document.activeElement).toBe(box);
  expect(press(box, "Tab", { shiftKey: true })).toBe(true);
  // While the button settles, the key leads to no other one, such as the one that leaves the edit.
  const run = button("Run edited") as HTMLButtonElement;
  run.disabled = true;
  expect(press(box, "Tab")).toBe(false);
  expect(document.activeElement).toBe(box);
  run.disabled = false;
  expect(press(box, "Tab")).toBe(false);
  expect(document.activeElement).toBe(button("Run edited"));
});

const click = (more: PointerEventInit) => new PointerEvent("click", { bubbles: true, detail: 1, ...more });
const tap = () => click({ pointerType: "touch" });
const clickOfMouse = () => click({ pointerType: "mouse" });
const keyPress = () => click({ pointerType: "", detail: 0 });
/** Events of a browser that does not tell a finger from a mouse. */
const oldClick = () => new MouseEvent("click", { bubbles: true, detail: 1 });
const oldKeyPress = () => new MouseEvent("click", { bubbles: true, detail: 0 });

test.each([
  ["a tap on a dangerous command asks for another one on a tablet", "dangerous", true, tap, 0],
  ["a tap on a dangerous command asks for another one on a laptop", "dangerous", false, tap, 0],
  ["a click of a mouse runs a dangerous command on a tablet", "dangerous", true, clickOfMouse, 1],
  ["a key press runs a dangerous command on a tablet", "dangerous", true, keyPress, 1],
  ["a click that may be a tap asks for another one on a tablet", "dangerous", true, oldClick, 0],
  ["a click that is no tap runs a dangerous command on a laptop", "dangerous", false, oldClick, 1],
  ["a key press runs a dangerous command in an old browser", "dangerous", true, oldKeyPress, 1],
  ["a tap runs a command that is not dangerous", "changes", true, tap, 1],
])("%s", async (_, risk, coarse, event, runs) => {
  vi.stubGlobal("matchMedia", (query: string) => ({
    matches: coarse && query.includes("coarse"),
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
  }));
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  await draw(proposed("bash", { command: "rm x" }, { command: "rm x", risk }));
  await tellEnd(true);
  const isReady = () => button("Run")?.disabled === false;
  await vi.waitUntil(isReady, { timeout: 10_000 });
  button("Run")?.dispatchEvent(event());
  await new Promise((next) => setTimeout(next));
  expect(decide).toHaveBeenCalledTimes(runs);
  expect(button("Run")?.textContent === "Run: tap again").toBe(runs === 0);
  if (runs > 0) return;
  // A second tap in the same moment is part of the first one.
  expect(isReady()).toBe(false);
  await vi.waitUntil(isReady, { timeout: 10_000 });
  button("Run")?.dispatchEvent(event());
  expect(decide).toHaveBeenCalledExactlyOnceWith("c", "allow");
});

test("a tap on a dangerous answer is forgotten after a moment", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  let taps: ReturnType<typeof useSecondTap> | undefined;
  const act = vi.fn();
  function Taps() {
    taps = useSecondTap("a command");
    return null;
  }
  const drawn = () => vi.advanceTimersByTimeAsync(1);
  root.render(<Taps />);
  await drawn();
  taps?.tap(act);
  await drawn();
  expect(taps?.waits).toBe(true);
  await vi.advanceTimersByTimeAsync(4_000);
  expect(taps?.waits).toBe(false);
  taps?.tap(act);
  expect(act).not.toHaveBeenCalled();
  vi.useRealTimers();
});

test("reasons that need not be read are named while they are below", async () => {
  const findings = [{ start: 0, end: 5, class: "changes" as const, why: "creates a file" }];
  await draw(proposed("bash", { command: "touch x" }, { command: "touch x", findings }));
  await new Promise((next) => setTimeout(next));
  const [toRead, reasons] = views;
  toRead?.(true);
  reasons?.(false);
  await vi.waitUntil(() => button("Run")?.disabled === false && document.querySelector(".reasons"), {
    timeout: 10_000,
  });
  expect(document.querySelector(".reasons")?.textContent?.trim()).toBe("reasons below");
  toRead?.(false); // what has been read stays read
  reasons?.(true);
  await vi.waitUntil(() => !document.querySelector(".reasons"));
  reasons?.(false);
  await vi.waitUntil(() => document.querySelector(".reasons"));
  // A jump past them, either way, is no news to an observer: they are out of view before and after.
  const mark = document.querySelector(".with-end > .end-mark") as HTMLElement;
  const place = vi.spyOn(mark, "getBoundingClientRect");
  const jump = (top: number) => {
    place.mockReturnValue({ top, bottom: top + 1, width: 1 } as DOMRect);
    document.querySelector(".card-body")?.dispatchEvent(new Event("scroll"));
  };
  jump(-2);
  await vi.waitUntil(() => !document.querySelector(".reasons"));
  jump(900);
  await vi.waitUntil(() => document.querySelector(".reasons"));
});

test("the answer for a long proposal tells the number of pages that are left", async () => {
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe() {}
      disconnect() {}
    },
  );
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(148);
  vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockImplementation(function (this: Element) {
    const bottom = this.className === "end-mark" ? 430 : 200;
    return { top: 0, bottom, height: 56, width: 1 } as DOMRect;
  });
  await draw(proposed("bash", { command: "a" }, { command: "a" }));
  const scroll = await vi.waitUntil(() => view, { timeout: 10_000 });
  scroll(false);
  await vi.waitUntil(() => button("Keep reading (3 pages)"), { timeout: 10_000 });
});

test("a note is asked for by its text, with its line breaks, and is shown once", async () => {
  const card = await draw(proposed("remember", NOTE, { command: `remember(${JSON.stringify(NOTE.text)})` }));
  expect(card.getAttribute("aria-label")).toBe("Save this note about web1?");
  expect(card.querySelector("#review-what")?.textContent).toBe("It runs nginx.\nNot\\x1b apache.");
  expect(card.textContent?.split("nginx")).toHaveLength(2);
});

/** Draws a card that has been read and had the focus for a while. */
async function drawRead(risk: string): Promise<HTMLElement> {
  const card = await draw(proposed("bash", { command: "a" }, { command: "a", risk }));
  const scroll = await vi.waitUntil(() => view, { timeout: 10_000 });
  scroll(true);
  await vi.waitUntil(() => button("Run")?.disabled === false, { timeout: 10_000 });
  vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_000);
  return card;
}

test.each([
  ["dangerous", "Yes"],
  ["changes", "restart"],
  ["changes", "exactly"],
  ["changes", "check"],
  ["changes", "Y!"],
])("on a card with the risk %s, typing %s begins a message and answers nothing", async (risk, text) => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const card = await drawRead(risk);
  vi.useFakeTimers();
  for (const key of text) {
    press(card, "Shift");
    press(card, key);
    vi.advanceTimersByTime(300);
  }
  vi.advanceTimersByTime(5_000);
  vi.useRealTimers();
  expect(write.mock.calls.flat().join("")).toBe(text);
  expect(document.querySelector(".field")).toBeNull();
  expect(decide).not.toHaveBeenCalled();
});

test("a letter answers after a pause, and at once with Enter", async () => {
  const card = await drawRead("changes");
  press(card, "r");
  expect(document.querySelector(".field")).toBeNull();
  expect((await field())?.getAttribute("aria-label")).toMatch(/^Reason/);
  press((await field()) as Element, "Escape");
  await vi.waitUntil(() => button("Edit"));
  vi.spyOn(performance, "now").mockReturnValue(performance.now() + 2_000);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  press(card, "e");
  press(card, "Enter");
  vi.useRealTimers();
  expect((await field())?.getAttribute("aria-label")).toBe("Edited command");
  expect(write).not.toHaveBeenCalled();
});

test("a letter before the proposal could be read is a letter of a message, and Esc takes one back", async () => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const card = await drawRead("dangerous");
  press(card, "Y");
  press(card, "Escape");
  press(card, "Enter");
  expect(decide).not.toHaveBeenCalled();
  expect(leave).not.toHaveBeenCalled();
  vi.spyOn(performance, "now").mockReturnValue(0);
  press(card, "r");
  expect(write).toHaveBeenCalledExactlyOnceWith("r");
});

test("a text in a field of the card does not go on in the prompt if somebody else answers", async () => {
  const card = await drawRead("changes");
  button("Reject")?.click();
  const box = await fill("because");
  box.focus();
  root.render(null);
  await vi.waitUntil(() => !card.isConnected);
  expect(done).not.toHaveBeenCalled();
});

test("the focus of a card goes to the prompt if somebody else answers", async () => {
  const card = await drawRead("changes");
  card.focus();
  root.render(null);
  await vi.waitUntil(() => !card.isConnected);
  expect(done).toHaveBeenCalledOnce();
});

test("a held letter goes to the prompt if somebody else answers", async () => {
  const card = await drawRead("changes");
  press(card, "r");
  root.render(null);
  await vi.waitUntil(() => write.mock.calls.length > 0);
  expect(write).toHaveBeenCalledExactlyOnceWith("r");
});

test.each<[string, string, (card: HTMLElement) => void]>([
  ["r", "changes", (card) => card.blur()],
  ["r", "changes", (card) => void press(card, "Tab")],
  ["e", "changes", (card) => void press(card, "ArrowDown")],
  ["Y", "dangerous", (card) => card.blur()],
])(
  "a held %s on a card with the risk %s goes to the prompt if the focus or another key goes elsewhere",
  async (...row) => {
    const [letter, risk, leaveCard] = row;
    const card = await drawRead(risk);
    press(card, letter);
    leaveCard(card);
    root.unmount();
    expect(insert).toHaveBeenCalledExactlyOnceWith(letter);
    expect(write).not.toHaveBeenCalled();
  },
);

test("a held letter is forgotten if the user clicks an answer", async () => {
  const card = await drawRead("dangerous");
  press(card, "Y");
  await vi.waitUntil(() => button("Run")?.textContent === "Run Enter");
  button("Run")?.focus();
  await vi.waitUntil(() => button("Run")?.textContent === "Run Y, Enter");
  root.unmount();
  expect([...insert.mock.calls, ...write.mock.calls]).toEqual([]);
});

test.each([
  ["a mouse", false, 300],
  ["a finger", true, 500],
])("an answer that appears under %s runs nothing yet", async (_, coarse, wait) => {
  vi.stubGlobal("matchMedia", (query: string) => ({
    matches: coarse && query === "(any-pointer: coarse)",
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
  }));
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const covers = { exact: { command: "a" } };
  await draw(proposed("bash", { command: "a" }, { command: "a", covers }));
  const scroll = await vi.waitUntil(() => view);
  scroll(true);
  const shown = performance.now();
  const answers = ["Run", "Allow for session"];
  for (const answer of answers) button(answer)?.click();
  expect(decide).not.toHaveBeenCalled();
  await vi.waitUntil(() => answers.every((answer) => button(answer)?.disabled === false));
  expect(performance.now() - shown).toBeGreaterThan(wait - 20);
  button("Run")?.click();
  expect(decide).toHaveBeenCalledWith("c", "allow");
});

test("findings that the preview makes plain are details, and a full list says that it is cut", async () => {
  const finding = (at: number, risk: string) => ({ start: at, end: at + 1, class: risk, why: `why ${at}` });
  const command = "x".repeat(70);
  const few = [finding(0, "changes"), finding(1, "dangerous")];
  const args = { command };
  let card = await draw(proposed("bash", args, { command, findings: few, preview: ["effect unknown"] }));
  expect(card.querySelector("details")).toBeNull();
  root.render(null);
  const preview = ["removes 2 files"];
  card = await draw(proposed("bash", args, { command: "yz", findings: few, preview }));
  expect(card.querySelector("summary")?.textContent).toBe("1 more detail");
  expect(card.querySelector("details")?.textContent).toContain("why 0");
  expect(card.querySelector(".findings")?.textContent).toContain("why 1");
  expect(card.textContent).not.toContain("the list is cut");
  root.render(null);
  const many = Array.from({ length: 64 }, (_, at) => finding(at, "changes"));
  card = await draw(proposed("bash", args, { command, findings: many }));
  expect(card.textContent).toContain("the list is cut here");
});

test("one of several calls says which", async () => {
  const step = proposed("bash", { command: "a" }, { command: "a" });
  const wanted = ["b", "c", "d"].map((toolCallId) => ({ toolCallId, name: "bash", arguments: {} }));
  expect(placeOf({ ...emptyTranscript, wanted }, "c")).toEqual({ number: 2, count: 3 });
  expect(placeOf({ ...emptyTranscript, wanted: wanted.slice(1, 2) }, "c")).toBeUndefined();
  const card = await draw(step, { number: 2, count: 3 });
  expect(card.querySelector("header")?.textContent).toContain("call 2 of 3");
});

test("an undo is asked for by its command and its plan, and its arguments are details", async () => {
  const args = { step: 5, call: "call_x", records: [{ id: "r" }], undoes: "rm -rf build" };
  const plan = ["restore build/a"];
  const card = await draw(proposed("undo", args, { command: "undo step 5", preview: plan }));
  expect(card.querySelector("header")?.textContent).toMatch(/^Undo rm -rf build\?/);
  expect(card.querySelector("#review-what")?.textContent).toBe("restore build/a");
  expect(card.querySelector("details")?.textContent).toContain("call_x");
  card.querySelector("details")?.remove();
  expect(card.textContent).not.toMatch(/call_x|records|step/);
});

const OVERWRITE = "overwrites f (8 bytes, 2 lines): +1 −1 lines";

test("an overwrite shows the change of the present file, and its whole text folded", async () => {
  const preview = [OVERWRITE, "@@ -2 +2 @@", " one", "-2", "+two"];
  const card = await draw(proposed("write_file", { path: "f", content: "one\ntwo\n" }, { preview }));
  expect(card.querySelector(".path")?.textContent).toBe("overwrites f +1 −1");
  expect(card.querySelector(".diff > pre")?.textContent).toBe("  one- 2+ two");
  expect(card.querySelector(".diff > details")?.textContent).toBe("The whole new text+ one+ two");
  expect(card.querySelector(".effect")?.textContent).toBe(OVERWRITE);
});

test("an overwrite whose change is cut is applied only after its end has been in view", async () => {
  const decide = vi.spyOn(store, "decide").mockImplementation(() => undefined);
  const args = { path: "f", content: "one\ntwo\n" };
  const covers = { tool: { name: "write_file" } };
  const written = proposed("write_file", args, { covers });
  await draw(written);
  const first = await vi.waitUntil(() => view);
  first(true);
  await vi.waitUntil(() => button("Apply")?.disabled === false);
  // Its preview arrives when the end of the text has been read.
  const card = await draw({ ...written, preview: [OVERWRITE, "@@ -2 +2 @@", " one", "… 2 more lines"] });
  const scroll = await vi.waitUntil(() => (view === first ? undefined : view));
  scroll(false);
  await vi.waitUntil(() => button("Keep reading"));
  expect(button("Apply")).toBeUndefined();
  expect(button("Allow for session")).toBeUndefined();
  expect(card.querySelector(".diff")?.textContent).toContain(
    "@@ -2 +2 @@  one… 2 more linesThe whole new text:",
  );
  scroll(true);
  await vi.waitUntil(() => button("Apply")?.disabled === false);
  button("Apply")?.click();
  expect(decide).toHaveBeenCalledExactlyOnceWith("c", "allow");
});

test("a finding that only repeats the badge is not listed", async () => {
  const finding = (end: number, why: string) => ({ start: 0, end, class: "changes", why });
  const findings = [finding(5, "makes changes"), finding(7, "moves a file")];
  const card = await draw(proposed("bash", { command: "mv a b" }, { command: "mv a b", findings }));
  expect(card.querySelector(".findings")?.textContent).toBe("mv a b moves a file");
});

test("the server's machine is named as soon as the server has told it", async () => {
  const card = cardOf(proposed("bash", { command: "ls" }), "local");
  const label = () => document.querySelector(".review .host")?.textContent;
  root.render(<MeContext value={undefined}>{card}</MeContext>);
  await vi.waitUntil(() => label() === "on the server");
  const server = { machine: "lab", host: "local", root: "/", model: "a/b", approve: "ask" as const };
  root.render(<MeContext value={{ name: "web", operate: true, decide: true, server }}>{card}</MeContext>);
  await vi.waitUntil(() => label() === "on lab");
});

test("the card of an undo names only the hosts that it changes", async () => {
  const undo = proposed("undo", { step: 1, records: [{ id: "r1", host: "web2" }] });
  root.render(cardOf(undo, "web1,web2,db1"));
  const card = await vi.waitUntil(() => document.querySelector(".review"));
  expect(card.querySelector(".host")?.textContent).toBe("on web2");
  expect(card.getAttribute("aria-label")).toMatch(/ on web2\?$/);
});
