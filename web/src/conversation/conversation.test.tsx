// @vitest-environment happy-dom
import { createRoot } from "react-dom/client";
import { expect, test, vi } from "vitest";
import { MeContext } from "../app/me";
import { SessionLink } from "../protocol/session-link";
import { SessionStore, type SessionView } from "../state/session-store";
import * as storage from "../state/storage";
import { emptyTranscript, fold } from "../state/transcript";
import type { ServerMessage } from "../wire";
import { Conversation, lazyParts, showsTasks } from "./Conversation";
import { TaskList } from "./TaskList";

test("the code of messages is loaded while a session is opened, before a message is there", async () => {
  const nothing = () => undefined;
  vi.stubGlobal("fetch", () => new Promise(nothing));
  const root = createRoot(document.body);
  root.render(
    <Conversation
      store={new SessionStore("s", new SessionLink("s"))}
      commands={{ run: nothing, insert: nothing, buffer: () => "" }}
      takesFocus={false}
      terminalShown={false}
      focused={nothing}
    />,
  );
  expect(lazyParts.loaded).toBeUndefined();
  await vi.waitUntil(() => lazyParts.loaded, { timeout: 10_000 });
  root.unmount();
  vi.unstubAllGlobals();
});

/** A proposal that waits for a decision. */
const request = {
  type: "approval.request",
  sessionId: "s",
  seq: 1,
  toolCallId: "c",
  name: "bash",
  command: "reboot",
  arguments: { command: "reboot" },
  reason: "",
  risk: "changes",
};

test.each([
  ["Queue", false],
  ["Reject", true],
])(
  "the button for a message during a proposal says %s if the right to decide is %s",
  async (label, decide) => {
    const nothing = () => undefined;
    vi.stubGlobal("fetch", () => new Promise(nothing));
    const transcript = fold(emptyTranscript, [request as unknown as ServerMessage]);
    const store = new SessionStore("s", new SessionLink("s"));
    const view = {
      ...store.snapshot(),
      transcript: { ...transcript, phase: "waiting" as const },
      status: { ...store.snapshot().status, state: "open" as const },
    };
    storage.saveDraft("s", "also check the disk");
    const root = createRoot(document.body);
    root.render(
      <MeContext value={{ name: "web", operate: true, decide }}>
        <Conversation
          store={Object.assign(store, { snapshot: () => view })}
          commands={{ run: nothing, insert: nothing, buffer: () => "" }}
          takesFocus={false}
          terminalShown={false}
          focused={nothing}
        />
      </MeContext>,
    );
    await vi.waitUntil(() => document.querySelector(".send"), { timeout: 10_000 });
    expect(document.querySelector(".send")?.textContent).toBe(label);
    root.unmount();
    storage.saveDraft("s", "");
    vi.unstubAllGlobals();
  },
);

test("an image that is dropped on the messages is attached like one on the composer", async () => {
  const nothing = () => undefined;
  const sent = vi.fn((_: RequestInfo | URL) => new Promise<Response>(nothing));
  vi.stubGlobal("fetch", sent);
  const root = createRoot(document.body);
  root.render(
    <Conversation
      store={new SessionStore("s", new SessionLink("s"))}
      commands={{ run: nothing, insert: nothing, buffer: () => "" }}
      takesFocus={false}
      terminalShown={false}
      focused={nothing}
    />,
  );
  const messages = await vi.waitUntil(() => document.querySelector(".scroller"));
  const drop = Object.assign(new Event("drop", { bubbles: true, cancelable: true }), {
    dataTransfer: { types: ["Files"], files: [new File(["x"], "a.png", { type: "image/png" })] },
  });
  messages.dispatchEvent(drop);
  expect(drop.defaultPrevented).toBe(true);
  await vi.waitUntil(() => sent.mock.calls.some(([url]) => String(url).includes("/images")));
  root.unmount();
  vi.unstubAllGlobals();
});

async function textOf(view: Partial<SessionView>, terminalShown = false): Promise<string> {
  const nothing = () => undefined;
  vi.stubGlobal("fetch", () => new Promise(nothing));
  const store = new SessionStore("s", new SessionLink("s"));
  const whole = { ...store.snapshot(), caughtUp: true, ...view };
  const root = createRoot(document.body);
  root.render(
    <Conversation
      store={Object.assign(store, { snapshot: () => whole })}
      commands={{ run: nothing, insert: nothing, buffer: () => "" }}
      takesFocus={false}
      terminalShown={terminalShown}
      focused={nothing}
    />,
  );
  await vi.waitUntil(() => document.querySelector(".conversation"), { timeout: 10_000 });
  const text = document.body.textContent ?? "";
  root.unmount();
  vi.unstubAllGlobals();
  return text;
}

test("a deleted session offers no task", async () => {
  const status = { kind: undefined, why: "the session was deleted", hint: "" };
  const deleted = await textOf({ status: { ...status, state: "offline", final: true } });
  expect(deleted).toContain("The session was deleted.");
  expect(deleted).not.toContain("How full is the disk?");
  const open = await textOf({ status: { ...status, state: "open", final: false } });
  expect(open).toContain("How full is the disk?");
});

test("a user of the terminal is told once: below the terminal, or else here", async () => {
  const transcript = { ...emptyTranscript, holder: "web" };
  expect(await textOf({ transcript })).toContain("web is using the terminal; agent paused");
  expect(await textOf({ transcript }, true)).not.toContain("using the terminal");
});

test("a paused turn says that an allowed step runs alone", async () => {
  const asks = fold(emptyTranscript, [request as unknown as ServerMessage]);
  const paused = (transcript: typeof asks) =>
    textOf({ transcript: { ...transcript, phase: "paused", stepOpen: false } });
  expect(await paused(asks)).toContain(
    "Agent paused. Allowing the step below runs only that step. Click Resume",
  );
  expect(await paused(asks)).not.toContain("ends the paused turn");
  expect(await paused(emptyTranscript)).toContain(
    "Agent paused. Click Resume to continue. A message ends the paused turn.",
  );
});

test("the activity line shows the characters of a command like its card", async () => {
  const call = {
    type: "tool.call",
    sessionId: "s",
    seq: 1,
    toolCallId: "c",
    name: "bash",
    arguments: { command: "echo \u{1f468}\u200d\u{1f469}\nls\u200b" },
    origin: "model",
  };
  const transcript = fold(emptyTranscript, [call as unknown as ServerMessage]);
  const text = await textOf({ transcript: { ...transcript, phase: "running" } });
  expect(text).toContain("running echo \u{1f468}\u200d\u{1f469} ls\\u{200b}");
});

test("the task list of an earlier turn is closed, and not shown if nothing is left to do", async () => {
  const tasks = (state: "done" | "pending") => [{ text: "copy", state }];
  const shown = (tasksTurn: number, state: "done" | "pending", phase: "idle" | "thinking") =>
    showsTasks({ ...emptyTranscript, tasks: tasks(state), tasksTurn, turn: 2, phase });
  expect([shown(2, "done", "thinking"), shown(2, "done", "idle")]).toEqual([true, false]);
  expect([shown(1, "done", "thinking"), shown(1, "pending", "thinking")]).toEqual([false, true]);
  vi.stubGlobal("matchMedia", () => ({ matches: true }));
  const root = createRoot(document.body);
  const open = async (ofThisTurn: boolean) => {
    root.render(
      <TaskList key={`${ofThisTurn}`} tasks={tasks("pending")} ofThisTurn={ofThisTurn} waits={false} />,
    );
    const button = () => document.querySelector("button[aria-expanded]");
    await vi.waitUntil(() => button()?.getAttribute("aria-expanded") === `${ofThisTurn}`);
    return document.querySelector("li") !== null;
  };
  expect([await open(true), await open(false)]).toEqual([true, false]);
  root.unmount();
  vi.unstubAllGlobals();
});
