// @vitest-environment happy-dom
import type { ComponentProps } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type LinkEnvironment, SessionLink } from "../protocol/session-link";
import type { Connection, ConnectionHandlers } from "../protocol/transport";
import { IMAGES_MAX } from "../state/draft";
import { SessionStore } from "../state/session-store";
import * as storage from "../state/storage";
import type { PromptImage, ServerMessage } from "../wire";
import { Composer, type ComposerHandle, isYes } from "./Composer";
import { ENTER_AFTER_MS } from "./settled";

const sessionId = "s";
let root: Root;
let store: SessionStore;
let hooks: ConnectionHandlers;
const tell = (message: unknown) => hooks.message(message as ServerMessage);

beforeEach(() => {
  sessionStorage.clear();
  const connect = (_: string, __: number, given: ConnectionHandlers): Connection => {
    hooks = given;
    return { kind: "socket", send: () => true, close: () => undefined };
  };
  const world: LinkEnvironment = {
    socket: connect,
    events: connect,
    canOpenSocket: async () => false,
    probe: async () => 0,
    now: () => 0,
    random: () => 0,
  };
  store = new SessionStore(sessionId, new SessionLink(sessionId, [], world));
  store.open();
  tell({ type: "session.created", sessionId, lastSeq: 0 });
  root = createRoot(document.body.appendChild(document.createElement("div")));
});
afterEach(() => {
  root.unmount();
  store.close();
  document.body.replaceChildren();
});

/** Sends a prompt that is queued, and stops the turn in another tab. */
function stopElsewhere(content: string, images: PromptImage[] = []): void {
  store.say(content, images);
  tell({ type: "prompt.queued", sessionId, seq: 1, content });
  tell({ type: "state", sessionId, seq: 2, event: "cancel_asked", state: "stopping", turn: 1, queued: 0 });
  store.flush();
}

async function open(more: Partial<ComponentProps<typeof Composer>> = {}): Promise<HTMLTextAreaElement> {
  root.render(
    <Composer
      store={store}
      prompt="agent:/>"
      placeholder=""
      pending={[]}
      typed={[]}
      queued={[]}
      ownQueued={[]}
      online
      running={false}
      endsTurn={false}
      proposal={undefined}
      upload={undefined}
      history={() => []}
      complete={() => []}
      buffer={() => ""}
      {...more}
    />,
  );
  const field = await vi.waitUntil(() => document.querySelector("textarea"), { timeout: 10_000 });
  return field as HTMLTextAreaElement;
}

/** Number of attached images. */
const attached = () => document.querySelectorAll(".images li").length;
const problem = () => document.querySelector(".images .warning")?.textContent;

const images = (first: number, count: number): PromptImage[] =>
  Array.from({ length: count }, (_, at) => ({
    artifact: `image-${first + at}`,
    mediaType: "image/png",
    width: 1,
    height: 1,
  }));

test.each(["input", "textarea"])("a prompt that returns leaves the focus to another %s", async (name) => {
  const field = await open();
  const other = document.body.appendChild(document.createElement(name));
  other.focus();
  stopElsewhere("restart web");
  await vi.waitUntil(() => field.value === "restart web", { timeout: 10_000 });
  expect(document.activeElement).toBe(other);
});

test("a prompt that returns takes the focus if nothing is being written", async () => {
  const field = await open();
  stopElsewhere("restart web");
  await vi.waitUntil(() => field.value === "restart web", { timeout: 10_000 });
  expect(document.activeElement).toBe(field);
});

test("a prompt that returns to a session in the background is there with its images when it is shown", async () => {
  stopElsewhere("look at this", images(0, 2));
  const field = await open();
  expect(field.value).toBe("look at this");
  expect(attached()).toBe(2);
});

test("images that are too many are named, also if they came in the background", async () => {
  storage.saveDraftImages(sessionId, images(0, 2));
  stopElsewhere("look at this", images(2, IMAGES_MAX));
  await open();
  expect(attached()).toBe(IMAGES_MAX);
  expect(problem()).toBe("A prompt may have at most 8 images. 2 images were left out.");
});

test("images that return beside others are attached up to the maximum", async () => {
  storage.saveDraftImages(sessionId, images(0, 1));
  await open();
  stopElsewhere("look at this", images(1, IMAGES_MAX));
  await vi.waitUntil(() => attached() === IMAGES_MAX, { timeout: 10_000 });
  expect(problem()).toBe("A prompt may have at most 8 images. 1 image was left out.");
  expect(storage.draftImages(sessionId)).toHaveLength(IMAGES_MAX);
});

test.each([true, false])("files that are not taken are named; uploads allowed: %s", async (allowed) => {
  const upload = vi.fn();
  const sent = vi.fn((_: RequestInfo | URL) => new Promise<Response>(() => undefined));
  vi.stubGlobal("fetch", sent);
  const handle: { current: ComposerHandle | null } = { current: null };
  await open({ ref: handle, ...(allowed && { upload }) });
  const file = (name: string, type = "") => new File(["x"], name, { type });
  const files = [file("a.png", "image/png"), file("a.txt"), file("b.txt")];
  handle.current?.addFiles(files);
  await vi.waitUntil(() => problem());
  expect(sent).toHaveBeenCalledOnce();
  expect(upload.mock.calls).toEqual(allowed ? [[files[1]]] : []);
  expect(problem()).toBe(
    allowed
      ? "Not taken: b.txt. One file at a time can be uploaded."
      : "Not taken: a.txt, b.txt. Only PNG, JPEG, GIF and WebP images can be attached.",
  );
  vi.unstubAllGlobals();
});

test("a file that cannot be uploaded now is named with the reason", async () => {
  const handle: { current: ComposerHandle | null } = { current: null };
  await open({ ref: handle, upload: () => "Answer the proposal first." });
  handle.current?.addFiles([new File(["x"], "a.txt")]);
  expect(await vi.waitUntil(() => problem())).toBe("Not taken: a.txt. Answer the proposal first.");
});

test("images are attached in the order of the drop, even if the first one fails or ends last", async () => {
  const answers: ((response: Response) => void)[] = [];
  vi.stubGlobal("fetch", () => new Promise<Response>((answer) => answers.push(answer)));
  const handle: { current: ComposerHandle | null } = { current: null };
  await open({ ref: handle });
  const names = ["a.png", "b.png", "c.png"];
  handle.current?.addFiles(names.map((name) => new File(["x"], name, { type: "image/png" })));
  const [first, second, third] = answers;
  const [one, two] = images(0, 2);
  third?.(Response.json(two));
  second?.(Response.json(one));
  first?.(new Response("no", { status: 500 }));
  await vi.waitUntil(() => attached() === 2, { timeout: 10_000 });
  expect(storage.draftImages(sessionId).map(({ artifact }) => artifact)).toEqual(["image-0", "image-1"]);
  vi.unstubAllGlobals();
});

test("the button says that a message ends a paused turn", async () => {
  await open({ running: true, endsTurn: true });
  expect(document.querySelector(".send")?.textContent).toBe("Send and end turn");
});

test("an empty composer is not measured", async () => {
  const measure = vi.spyOn(window, "getComputedStyle");
  const field = await open();
  expect(measure).not.toHaveBeenCalled();
  stopElsewhere("restart web");
  await vi.waitUntil(() => field.style.height !== "", { timeout: 10_000 });
  expect(measure).toHaveBeenCalled();
  measure.mockRestore();
});

function press(field: HTMLElement, key: string, more: KeyboardEventInit = {}): void {
  field.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
}

function type(field: HTMLTextAreaElement, text: string): void {
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

test("text that is written from elsewhere is there at once, at the cursor, and is kept", async () => {
  const ref: { current: ComposerHandle | null } = { current: null };
  const field = await open({ ref });
  ref.current?.write("re");
  expect([field.value, document.activeElement]).toEqual(["re", field]);
  type(field, "rest");
  field.setSelectionRange(2, 2);
  ref.current?.write("qu");
  expect(field.value).toBe("requst");
  expect(storage.draft(sessionId)).toBe("requst");
});

test("Enter takes the offered command, and sends one that is complete", async () => {
  const say = vi.spyOn(store, "say").mockImplementation(() => undefined);
  const command = (name: string) => ({ name, arguments: "", description: "" });
  const commands = ["/compact", "/cost", "/cost-of-disks"].map(command);
  const field = await open({
    complete: (text) => (text ? commands.filter(({ name }) => name.startsWith(text)) : []),
  });
  type(field, "/com");
  await vi.waitUntil(() => document.querySelector("[role=option]"));
  press(field, "Enter");
  await vi.waitUntil(() => field.value === "/compact");
  expect(say).not.toHaveBeenCalled();
  press(field, "Enter");
  expect(say).toHaveBeenLastCalledWith("/compact", []);
  type(field, "/cost");
  await vi.waitUntil(() => document.querySelector("[role=option]"));
  press(field, "Enter");
  expect(say).toHaveBeenLastCalledWith("/cost", []);
});

test("Esc in the empty field stops the turn", async () => {
  const stop = vi.spyOn(store, "stop").mockImplementation(() => undefined);
  let field = await open();
  press(field, "Escape");
  root.render(null);
  field = await open({ running: true });
  press(field, "Escape", { repeat: true });
  type(field, "and");
  await vi.waitUntil(() => storage.draft(sessionId) === "and");
  press(field, "Escape");
  expect(stop).not.toHaveBeenCalled();
  type(field, "");
  await vi.waitUntil(() => storage.draft(sessionId) === "");
  press(field, "Escape");
  expect(stop).toHaveBeenCalledOnce();
});

test("a message rejects the proposal that waits, and a command does not", async () => {
  const say = vi.spyOn(store, "say").mockImplementation(() => undefined);
  const reject = vi.fn();
  const field = await open({ running: true, proposal: { call: "c", reject } });
  const send = () => document.querySelector(".send")?.textContent;
  for (const command of ["!uptime", "/cost"]) {
    type(field, command);
    await vi.waitUntil(() => storage.draft(sessionId) === command && send() === "Queue");
    press(field, "Enter");
    expect(say).toHaveBeenLastCalledWith(command, []);
  }
  expect(reject).not.toHaveBeenCalled();
  type(field, "Yes, but list them first");
  await vi.waitUntil(() => send() === "Reject");
  await vi.waitUntil(() => {
    press(field, "Enter");
    return reject.mock.calls.length > 0;
  });
  expect(reject).toHaveBeenCalledExactlyOnceWith("Yes, but list them first");
  expect(say).toHaveBeenCalledTimes(2);
  expect(storage.draft(sessionId)).toBe("");
});

test("a message for the queue does not reject a proposal that has only just appeared", async () => {
  const reject = vi.fn();
  const field = await open({ running: true });
  type(field, "also check the disk");
  await vi.waitUntil(() => storage.draft(sessionId) === "also check the disk");
  vi.useFakeTimers();
  try {
    // Polls move the time here.
    await open({ running: true, proposal: { call: "c", reject } });
    await vi.waitUntil(() => document.querySelector(".send")?.textContent === "Reject", { interval: 10 });
    press(field, "Enter");
    await vi.waitUntil(() => document.querySelector("[role=status]"), { interval: 10 });
    expect(document.querySelector("[role=status]")?.textContent).toContain("has just appeared");
    expect(reject).not.toHaveBeenCalled();
    expect([field.value, storage.draft(sessionId)]).toEqual(Array(2).fill("also check the disk"));
    await vi.advanceTimersByTimeAsync(2 * ENTER_AFTER_MS);
  } finally {
    vi.useRealTimers();
  }
  await vi.waitUntil(() => {
    press(field, "Enter");
    return reject.mock.calls.length > 0;
  });
  expect(reject).toHaveBeenCalledExactlyOnceWith("also check the disk");
  expect(storage.draft(sessionId)).toBe("");
});

test("text that is inserted leaves the focus where it is", async () => {
  const ref: { current: ComposerHandle | null } = { current: null };
  const field = await open({ ref });
  const other = document.body.appendChild(document.createElement("button"));
  other.focus();
  ref.current?.insert("r");
  expect([field.value, storage.draft(sessionId), document.activeElement]).toEqual(["r", "r", other]);
});

test("only a bare yes leads back to the proposal", () => {
  expect(["y", "Yes ", "yes, but list them first", "no"].map(isYes)).toEqual([true, true, false, false]);
});
