import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type LinkEnvironment, resetSocketBlock, SessionLink } from "../protocol/session-link";
import type { Connection, ConnectionHandlers } from "../protocol/transport";
import type { ClientMessage, Origin, ServerMessage } from "../wire";
import { commandCode, fromTerminal, SessionStore } from "./session-store";

let hooks: ConnectionHandlers;
let sent: ClientMessage[];
let store: SessionStore;
let world: LinkEnvironment;

const sessionId = "s";
const host = {
  model: "m/m",
  approve: "ask",
  mode: "agent",
  host: "web1",
  root: "/",
  profile: "full",
  maxIterations: 20,
  tools: [],
};
const greet = (lastSeq: number) =>
  tell({ type: "session.created", sessionId, ...host, lastSeq } as ServerMessage);
const tell = (message: ServerMessage) => hooks.message(message);
const settle = () => vi.advanceTimersByTimeAsync(1_000);
const request = (seq: number, toolCallId: string) =>
  tell({
    type: "approval.request",
    sessionId,
    seq,
    toolCallId,
    name: "bash",
    command: "reboot",
    arguments: { command: "reboot" },
    reason: "",
    risk: "dangerous",
    covers: { exact: { command: "reboot" } },
  });
const named = (type: ClientMessage["type"]) => sent.filter((message) => message.type === type);

beforeAll(() => commandCode.load(), 20_000);
beforeEach(() => {
  vi.useFakeTimers();
  resetSocketBlock();
  sent = [];
  const open = (_: string, __: number, given: ConnectionHandlers): Connection => {
    hooks = given;
    return {
      kind: "socket",
      send: (message) => {
        sent.push(message);
        return true;
      },
      close: () => undefined,
    };
  };
  world = {
    socket: open,
    events: open,
    canOpenSocket: async () => false,
    probe: async () => 0,
    now: () => Date.now(),
    random: () => 0,
  };
  store = new SessionStore(sessionId, new SessionLink(sessionId, [], world));
  store.open();
});
afterEach(() => {
  store.close();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("an answer to a proposal", () => {
  test("is sent once, and can be given again if the connection was lost", async () => {
    greet(1);
    request(1, "c1");
    await settle();
    store.decide("c1", "allow");
    expect(named("approval.decision")).toHaveLength(1);
    expect(store.snapshot().answered.has("c1")).toBe(true);
    hooks.ended({ worked: true });
    expect(store.snapshot().answered.has("c1")).toBe(false);
  });

  test("that was not accepted is shown with a hint, and can be given again", async () => {
    greet(1);
    request(1, "c1");
    store.decide("c1", "allow");
    const { messageId } = named("approval.decision")[0] as { messageId: string };
    tell({ type: "error", sessionId, message: "it was answered before", code: "stale", replyTo: messageId });
    await settle();
    expect(store.snapshot().answered.has("c1")).toBe(false);
    expect(store.snapshot().troubles).toMatchObject([
      { what: "Answer not accepted", why: "it was answered before" },
    ]);
    expect(store.snapshot().troubles[0]?.hint).not.toBe("");
  });
});

test("the user who controls the terminal is forgotten with the connection, and with the shell", async () => {
  const holder = () => store.snapshot().transcript.holder;
  greet(0);
  tell({ type: "terminal.control", sessionId, holder: "ada" });
  await settle();
  expect(holder()).toBe("ada");
  hooks.ended({ worked: true });
  await settle();
  expect(holder()).toBeUndefined();
  greet(0);
  tell({ type: "terminal.control", sessionId, holder: "ada" });
  tell({ type: "terminal.output", sessionId, ended: "the shell exited with 0" });
  await settle();
  expect(holder()).toBeUndefined();
});

test("the message of a refused rejection returns to the draft", async () => {
  const drafts: string[] = [];
  store.onDraft((text) => drafts.push(text));
  greet(1);
  request(1, "c1");
  for (const code of ["forbidden", "stale"] as const) {
    store.decide("c1", "reject", { reason: "check the disk" });
    const { messageId } = named("approval.decision").at(-1) as { messageId: string };
    tell({ type: "error", sessionId, message: "no", code, replyTo: messageId });
  }
  await settle();
  expect(drafts).toEqual(["check the disk", "check the disk"]);
});

test("a message that rejects a call of the viewer's own is its reason and the next draft, and is not sent", async () => {
  const drafts: string[] = [];
  store.onDraft((text) => drafts.push(text));
  greet(1);
  request(1, "c1");
  const call = (origin: Origin, askedBy?: string) => ({ call: "c1", origin, askedBy });
  store.rejectWith(call("typed"), "own", "ada");
  store.rejectWith(call("plan", "ada"), "own too", "ada");
  expect(drafts).toEqual(["own", "own too"]);
  const { messageId } = named("approval.decision").at(-1) as { messageId: string };
  tell({ type: "error", sessionId, message: "no", code: "stale", replyTo: messageId });
  store.rejectWith(call("model"), "of the model", "ada");
  store.rejectWith(call("mcp_client"), "of a client", "ada");
  store.rejectWith(call("typed", "bob"), "of somebody else", "ada");
  await settle();
  expect(named("approval.decision")).toMatchObject(
    ["own", "own too", "of the model", "of a client", "of somebody else"].map((reason) => ({ reason })),
  );
  expect(named("user.message")).toEqual([]);
  expect(drafts).toEqual(["own", "own too"]);
  expect(store.snapshot().transcript.items.at(-1)).toMatchObject({ text: expect.stringMatching(/not sent/) });
});

test("each prompt and each retry asks the conversation to show its end", async () => {
  greet(0);
  await settle();
  expect(store.snapshot().sends).toBe(0);
  store.say("hello");
  store.say("!uptime");
  store.retry();
  expect(store.snapshot().sends).toBe(3);
});

test("a call that begins while the page is connected has a time until it ends, shown with the next frame", async () => {
  const begins = (seq: number, toolCallId: string) =>
    tell({ type: "tool.call", sessionId, seq, toolCallId, name: "bash", arguments: {}, origin: "model" });
  greet(1);
  begins(1, "old");
  await settle();
  const at = Date.now();
  let renders = 0;
  store.subscribe(() => {
    renders += 1;
  });
  begins(2, "new");
  begins(3, "newer");
  expect(renders).toBe(0);
  await settle();
  expect(renders).toBe(1);
  expect([...store.snapshot().begun]).toEqual([
    ["new", at],
    ["newer", at],
  ]);
  const end = { name: "bash", status: "ok", truncated: false, output: "", durationMs: 1 } as const;
  tell({ type: "tool.finished", sessionId, seq: 4, toolCallId: "new", ...end });
  tell({ type: "tool.finished", sessionId, seq: 5, toolCallId: "newer", ...end });
  await settle();
  expect(store.snapshot().begun.size).toBe(0);
});

test("a model call that begins while the page is connected has a time", async () => {
  const asks = (seq: number) =>
    tell({ type: "state", event: "step_started", sessionId, seq, queued: 0 } as unknown as ServerMessage);
  greet(1);
  asks(1);
  await settle();
  expect(store.snapshot().asked).toBeUndefined();
  const at = Date.now();
  asks(2);
  await settle();
  expect(store.snapshot().asked).toBe(at);
});

describe("the history of a session", () => {
  test("is shown as soon as its last message has arrived", () => {
    greet(2);
    request(1, "c1");
    expect(store.snapshot().caughtUp).toBe(false);
    tell({ type: "user.message", sessionId, seq: 2, content: "hello" } as ServerMessage);
    expect(store.snapshot().caughtUp).toBe(true);
    expect(store.snapshot().transcript.lastPrompt).toBe("hello");
  });

  test("that continues after a reconnect does not blank the conversation", async () => {
    vi.stubGlobal("document", { visibilityState: "visible", addEventListener: () => undefined });
    vi.stubGlobal("requestAnimationFrame", (then: () => void) => setTimeout(then, 16));
    greet(1);
    request(1, "c1");
    await settle();
    hooks.ended({ worked: true });
    await settle();
    greet(2);
    await vi.advanceTimersByTimeAsync(17);
    expect(store.snapshot().caughtUp).toBe(true);
    tell({ type: "user.message", sessionId, seq: 2, content: "hello" } as ServerMessage);
    expect(store.snapshot()).toMatchObject({ caughtUp: true, transcript: { lastPrompt: "hello" } });
  });
});

test("a refused terminal size is no error of the user, a refused key is", async () => {
  greet(0);
  const refuse = (replyTo?: string) =>
    tell({ type: "error", sessionId, message: "no", code: "forbidden", ...(replyTo && { replyTo }) });
  refuse("terminal-size");
  expect(store.snapshot().troubles).toEqual([]);
  refuse();
  expect(store.snapshot().troubles).toHaveLength(1);
});

describe("without a connection", () => {
  test("a stop or answer is reported as failed, and is not sent later", async () => {
    store.stop();
    store.answer({ type: "question.answer", id: 1, answer: "secret" });
    expect(store.snapshot().troubles.length).toBeGreaterThan(0);
    expect(JSON.stringify(store.snapshot())).not.toContain("secret");
    greet(0);
    await settle();
    expect(sent).toEqual([]);
    expect(store.snapshot().stopping).toBe(false);
  });

  test("a command stays in the draft", () => {
    const drafts: string[] = [];
    store.onDraft((text) => drafts.push(text));
    store.say("!uptime");
    expect(drafts).toEqual(["!uptime"]);
  });

  test("a request to compact stays in the draft", () => {
    const drafts: string[] = [];
    store.onDraft((text) => drafts.push(text));
    store.say("/compact ports");
    expect(drafts).toEqual(["/compact ports"]);
  });

  test("a prompt waits, and goes back to the draft if it is refused", async () => {
    const drafts: string[] = [];
    store.onDraft((text) => drafts.push(text));
    store.say("go");
    expect(store.snapshot().pending).toMatchObject([{ content: "go" }]);
    greet(0);
    const { messageId } = named("user.message")[0] as { messageId: string };
    tell({ type: "error", sessionId, message: "too long", code: "too_large", replyTo: messageId });
    await settle();
    expect(drafts).toEqual(["go"]);
    expect(store.snapshot().pending).toEqual([]);
  });
});

test("/compact is a message of its own, with or without a focus", async () => {
  greet(0);
  store.say("/compact");
  store.say("/compact the ports");
  store.say("/compacted/is a prompt");
  await settle();
  expect(named("compact")).toMatchObject([{ type: "compact" }, { type: "compact", focus: "the ports" }]);
  expect(named("user.message")).toMatchObject([{ content: "/compacted/is a prompt" }]);
});

test("an unknown command returns to the composer, unless it is a new skill", async () => {
  const skills = [{ name: "deploy", kind: "skill", source: "user", path: "p", listed: true }];
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ skills })));
  const drafts: string[] = [];
  store.onDraft((text) => drafts.push(text));
  greet(0);
  store.say("/nonsense now");
  store.say("/deploy web1");
  store.say("/etc/passwd is what?");
  await settle();
  expect(drafts).toEqual(["/nonsense now"]);
  const contents = named("user.message").map((message) => "content" in message && message.content);
  expect(contents).toEqual(["/deploy web1", "/etc/passwd is what?"]);
  const { items } = store.snapshot().transcript;
  expect(items).toMatchObject([
    { kind: "notice", text: "Unknown command /nonsense. Type /help for a list." },
  ]);
});

test("an unknown command that is similar to a known one is told which", async () => {
  const skills = [{ name: "deploy", kind: "skill", source: "user", path: "p", listed: true }];
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ skills })));
  greet(0);
  for (const word of ["/modle", "/hots", "/deplyo", "/xyz"]) store.say(word);
  await settle();
  const { items } = store.snapshot().transcript;
  expect(items).toMatchObject(
    [
      "Unknown command /modle. Did you mean /model?",
      "Unknown command /hots. Did you mean /host?",
      "Unknown command /deplyo. Did you mean /deploy?",
      "Unknown command /xyz. Type /help for a list.",
    ].map((text) => ({ kind: "notice", text })),
  );
});

test("what is typed after a new skill is sent after it, and the skills are asked for once", async () => {
  const skills = [{ name: "deploy", kind: "skill", source: "user", path: "p", listed: true }];
  const answers: (() => void)[] = [];
  vi.stubGlobal("fetch", () => {
    const answer = new Response(JSON.stringify({ skills }));
    return new Promise((done) => answers.push(() => done(answer)));
  });
  greet(0);
  void store.fetchSkills();
  store.say("/deploy web1");
  store.say("and web2");
  store.say("!uptime");
  await settle();
  expect(sent).toEqual([]);
  expect(store.snapshot().typed).toEqual(["/deploy web1", "and web2", "!uptime"]);
  expect(answers).toHaveLength(1);
  answers[0]?.();
  await settle();
  expect(sent).toMatchObject([
    { type: "user.message", content: "/deploy web1" },
    { type: "user.message", content: "and web2" },
    { type: "direct", command: "uptime" },
  ]);
  expect(store.snapshot().typed).toEqual([]);
  store.say("/deploy web3");
  expect(named("user.message")).toHaveLength(3);
  expect(answers).toHaveLength(1);
});

test("a command that cannot run now returns to the composer with a reason", () => {
  const drafts: string[] = [];
  store.onDraft((text) => drafts.push(text));
  greet(1);
  tell({
    type: "state",
    sessionId,
    seq: 1,
    event: "turn_started",
    state: "thinking",
    turn: 1,
  } as ServerMessage);
  store.flush();
  store.say("!uptime");
  store.undoStep("c1");
  store.flush();
  expect(sent).toEqual([]);
  expect(drafts).toEqual(["!uptime"]);
  const why = "not run: a turn is running; wait for it, or stop it";
  const notices = () =>
    store.snapshot().transcript.items.flatMap((item) => (item.kind === "notice" ? [item.text] : []));
  expect(notices()).toEqual([why, why]);
  store.say("/compact");
  store.flush();
  expect(sent).toMatchObject([{ type: "compact" }]);
  expect(notices()).toContain("the context will be compacted after this step");
});

test("a stop returns what waits for the list of skills to the composer", async () => {
  const skills = [{ name: "deploy", kind: "skill", source: "user", path: "p", listed: true }];
  let answer = () => {};
  vi.stubGlobal("fetch", () => {
    const listed = new Response(JSON.stringify({ skills }));
    return new Promise((done) => {
      answer = () => done(listed);
    });
  });
  const drafts: string[] = [];
  store.onDraft((text) => drafts.push(text));
  greet(0);
  store.say("/deploy web1");
  store.say("!systemctl restart web");
  store.stop();
  answer();
  await settle();
  expect(sent).toMatchObject([{ type: "cancel" }]);
  expect(drafts).toEqual(["/deploy web1\n!systemctl restart web"]);
  expect(store.snapshot().typed).toEqual([]);
});

test("a stop returns the prompts that this tab queued to the composer, even if the tab is reloaded before", async () => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
  const queue = (content: string, seq: number) => tell({ type: "prompt.queued", sessionId, seq, content });
  const drafts: string[] = [];
  store.onDraft((text) => drafts.push(text));
  greet(1);
  queue("another tab's", 1);
  store.say("restart web");
  queue("restart web", 2);
  await settle();
  expect(store.snapshot().transcript.queued).toEqual(["another tab's", "restart web"]);
  store.close();
  store = new SessionStore(sessionId, new SessionLink(sessionId, [], world));
  store.onDraft((text) => drafts.push(text));
  store.open();
  greet(3);
  queue("another tab's", 1);
  queue("restart web", 2);
  expect(drafts).toEqual([]);
  const metadata = {
    stopReason: "cancelled",
    turn: 1,
    usage: { inputTokens: 0, outputTokens: 0, cachedTokens: 0 },
    iterations: 1,
  } as const;
  tell({ type: "assistant.done", sessionId, seq: 3, metadata });
  await settle();
  expect(drafts).toEqual(["restart web"]);
  expect(kept.has(`sysop.queued.${sessionId}`)).toBe(false);
});

describe("a prompt that this tab queued", () => {
  const queue = (content: string, seq: number) => tell({ type: "prompt.queued", sessionId, seq, content });
  const end = (stopReason: "paused" | "cancelled", seq: number) => {
    const usage = { inputTokens: 0, outputTokens: 0, cachedTokens: 0 };
    tell({ type: "assistant.done", sessionId, seq, metadata: { stopReason, turn: 1, usage, iterations: 1 } });
  };
  let drafts: string[];

  beforeEach(async () => {
    drafts = [];
    store.onDraft((text) => drafts.push(text));
    greet(0);
    store.say("restart web");
    queue("restart web", 1);
    await settle();
  });

  test.each([0, 1, 2, 3])(
    "is not in the composer too if another prompt replaces the turn, with messages split at %i",
    async (at) => {
      const messages = [() => end("paused", 2), () => queue("restart web", 3), () => queue("and db", 4)];
      for (const send of messages.slice(0, at)) send();
      store.flush();
      for (const send of messages.slice(at)) send();
      await settle();
      expect(drafts).toEqual([]);
      end("cancelled", 5);
      await settle();
      expect(drafts).toEqual(["restart web"]);
    },
  );

  test("returns to the composer if no message queues it again, and only once", async () => {
    end("cancelled", 2);
    store.flush();
    expect(drafts).toEqual([]);
    await settle();
    expect(drafts).toEqual(["restart web"]);
    await settle();
    expect(drafts).toEqual(["restart web"]);
  });

  test("returns if this tab took it back, and not if somebody else took an equal one back", async () => {
    const taken = (seq: number) => tell({ type: "prompt.withdrawn", sessionId, seq, content: "restart web" });
    queue("restart web", 2);
    taken(3);
    await settle();
    expect([drafts, store.snapshot().ownQueued]).toEqual([[], ["restart web"]]);
    store.withdraw("restart web");
    const { messageId } = named("prompt.withdraw")[0] as { messageId: string };
    tell({ type: "error", sessionId, message: "no", code: "forbidden", replyTo: messageId });
    queue("restart web", 4);
    taken(5);
    await settle();
    expect(drafts).toEqual([]);
    store.withdraw("restart web");
    taken(6);
    await settle();
    expect([drafts, store.snapshot().ownQueued]).toEqual([["restart web"], []]);
  });

  test("does not return while the messages after the end of its turn are missing", async () => {
    end("paused", 2);
    store.flush();
    hooks.ended({ worked: true });
    await vi.advanceTimersByTimeAsync(400);
    greet(3);
    queue("restart web", 3);
    await settle();
    expect(drafts).toEqual([]);
  });
});

test("/effort configures the session, and the page itself answers /cost and /trust", async () => {
  greet(0);
  store.say("/effort high");
  store.say("/cost");
  store.say("/trust");
  store.say("/init");
  await settle();
  expect(named("configure")).toMatchObject([{ type: "configure", effort: "high" }]);
  expect(named("user.message")).toMatchObject([{ content: "/init" }]);
  const told = store
    .snapshot()
    .transcript.items.flatMap((item) => (item.kind === "notice" ? [item.text] : []));
  expect(told).toHaveLength(2);
  expect(told[0]).toContain("tokens in");
  expect(told[1]).toContain("cannot be trusted");
});

test("a stop is shown at once and until the turn has ended", async () => {
  const state = (seq: number, word: "running" | "stopping" | "idle") =>
    tell({
      type: "state",
      sessionId,
      seq,
      state: word,
      turn: 1,
      iteration: 1,
      maxIterations: 20,
      approve: "ask",
      queued: 0,
    });
  greet(1);
  state(1, "running");
  await settle();
  store.stop();
  expect(store.snapshot().stopping).toBe(true);
  state(2, "stopping");
  await settle();
  expect(store.snapshot().stopping).toBe(true);
  state(3, "idle");
  await settle();
  expect(store.snapshot().stopping).toBe(false);
});

test("a hidden page sends notifications of new events, not of history", async () => {
  const shown: [string, string][] = [];
  class FakeNotification extends EventTarget {
    static permission = "granted";
    constructor(title: string, { body }: { body: string }) {
      super();
      shown.push([title, body]);
    }
  }
  vi.stubGlobal("Notification", FakeNotification);
  vi.stubGlobal("document", { visibilityState: "hidden" });
  greet(1);
  request(1, "old");
  await settle();
  expect(shown).toEqual([]);
  request(2, "new");
  tell({
    type: "question",
    sessionId,
    question: { id: 1, kind: "secret", from: "sudo on web1", prompt: "Password:" },
  });
  const metadata = {
    stopReason: "end_turn",
    turn: 1,
    usage: { inputTokens: 0, outputTokens: 0, cachedTokens: 0 },
    iterations: 1,
  } as const;
  tell({ type: "assistant.done", sessionId, seq: 3, metadata });
  await settle();
  expect(shown.map(([title]) => title)).toEqual([
    "web1: approval required",
    "web1: input required",
    "web1: done",
  ]);
  vi.stubGlobal("document", { visibilityState: "visible" });
  vi.stubGlobal("requestAnimationFrame", (frame: () => void) => setTimeout(frame, 16));
  request(4, "seen");
  await settle();
  expect(shown).toHaveLength(3);
});

test("the mode follows the server, and a prompt in chat mode goes to the session", async () => {
  greet(0);
  await settle();
  store.setMode("chat");
  expect(named("configure")).toMatchObject([{ type: "configure", mode: "chat" }]);
  expect(store.snapshot().mode).toBe("agent");
  tell({ type: "configured", sessionId, seq: 1, mode: "chat" });
  await settle();
  expect(store.snapshot().mode).toBe("chat");
  store.say("how full?");
  expect(named("user.message")).toMatchObject([{ content: "how full?" }]);
});

test("terminal output cannot end the fence around it", () => {
  expect(fromTerminal("a\n```\nb\n\n")).toBe("From the terminal:\n````\na\n```\nb\n````\n");
});

test("reading a background job ends no paused turn", async () => {
  greet(0);
  store.readJob(1);
  tell({ type: "state", sessionId, seq: 1, event: "paused", state: "paused", turn: 1 } as ServerMessage);
  await settle();
  store.readJob(2);
  await settle();
  expect(named("direct")).toMatchObject([{ tool: "jobs", arguments: { action: "read", id: 1 } }]);
  expect(store.snapshot().transcript.items.at(-1)).toMatchObject({
    kind: "notice",
    text: "not run: it would end the paused turn; resume or stop the turn first",
  });
});

test("a search without words goes on with those of the open one", () => {
  store.find({ words: "bold counted", ofList: true });
  store.changeFind({ isNew: false });
  store.find({ words: "", ofList: false });
  expect(store.snapshot().find).toEqual({ words: "bold counted", ofList: true, isNew: true });
  store.find({ words: "disk", ofList: false });
  expect(store.snapshot().find).toEqual({ words: "disk", ofList: false, isNew: true });
  store.closeFind();
  store.changeFind({ words: "late" });
  expect(store.snapshot().find).toBeUndefined();
});

test("a failure of a command does not count as code that was not sent", async () => {
  vi.spyOn(commandCode, "load").mockResolvedValue({
    unknownCommand: () => "",
    parseCommand: () => {
      throw new Error("a defect");
    },
  });
  const loading = (store as unknown as { loadCommand(text: string): Promise<void> }).loadCommand("/help");
  await expect(loading).rejects.toThrow("a defect");
  expect(store.snapshot().troubles).toEqual([]);
  vi.restoreAllMocks();
});
