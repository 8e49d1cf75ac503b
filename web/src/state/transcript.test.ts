import { describe, expect, test } from "vitest";
import { originLabel } from "../text/labels";
import type { ServerMessage } from "../wire";
import type { Item, Step } from "./item";
import { otherProviders } from "./output-readers";
import { proposedSteps } from "./proposed-steps";
import {
  contextStart,
  emptyTranscript,
  fold,
  ITEMS_MAX,
  isCaughtUp,
  LIVE_OUTPUT_MAX,
  LIVE_TEXT_MAX,
  pendingApproval,
  type Transcript,
} from "./transcript";

const sessionId = "s";
const opening: ServerMessage = {
  type: "session.created",
  sessionId,
  seq: 1,
  more: true,
  model: "gemini/flash",
  approve: "ask",
  mode: "agent",
  host: "web1",
  root: "/srv",
  profile: "full",
  maxIterations: 20,
  tools: [
    { name: "run_command", effect: "command" },
    { name: "send_keys", effect: "keys" },
    { name: "write_file", effect: "writes" },
    { name: "task_complete", effect: "completes" },
  ],
};
const usage = { inputTokens: 10, outputTokens: 5, cachedTokens: 0 };

/** Numbers the events of a script; messages in one list are one event. */
function log(...events: (object | object[])[]): ServerMessage[] {
  return events.flatMap((event, at) => {
    const messages = Array.isArray(event) ? event : [event];
    return messages.map((message, place) => ({
      sessionId,
      seq: at + 1,
      ...(place < messages.length - 1 ? { more: true } : {}),
      ...message,
    }));
  }) as ServerMessage[];
}
const live = (type: string, fields: object = {}) => ({ type, sessionId, ...fields }) as ServerMessage;
const state = (word: string, turn: number, iteration = 0, more: object = {}) => ({
  type: "state",
  state: word,
  turn,
  iteration,
  maxIterations: 20,
  approve: "ask",
  queued: 0,
  ...more,
});
const idle = state("idle", 0);
const prompt = (content: string, turn: number) => [
  { type: "user.message", content },
  state("thinking", turn),
];
const step = (turn: number, iteration: number) =>
  state("thinking", turn, iteration, { event: "step_started" });
const done = (turn: number, stopReason = "end_turn", iterations = 1) => ({
  type: "assistant.done",
  metadata: { stopReason, turn, usage, iterations },
});
const call = (id: string, name: string, args: object) => ({ toolCallId: id, name, arguments: args });
const reply = (content: string, iteration: number, ...toolCalls: object[]) => [
  ...(content ? [{ type: "assistant.message", content }] : []),
  { type: "step.finished", iteration, usage, toolCalls },
];
const starts = (id: string, name: string, args: object) => ({
  type: "tool.call",
  ...call(id, name, args),
  origin: "model",
});
const ends = (id: string, name: string, output: string, status = "ok", exitCode = 0) => ({
  type: "tool.finished",
  toolCallId: id,
  name,
  status,
  exitCode,
  truncated: false,
  output,
  durationMs: 5,
});

const first = [opening, idle];
const kinds = (transcript: Transcript) => transcript.items.map(({ kind }) => kind);
const lastStep = (transcript: Transcript) =>
  transcript.items.findLast((item): item is Step => item.kind === "step");
function textOf(transcript: Transcript, kind: Item["kind"]): string | undefined {
  const item = transcript.items.findLast((other) => other.kind === kind);
  return item && "text" in item ? item.text : undefined;
}

const df = { command: "df -h", reasoning: "look" };
const task = log(
  first,
  prompt("check the disk", 1),
  step(1, 1),
  reply("I look.", 1, call("c1", "run_command", df)),
  {
    type: "approval.request",
    ...call("c1", "run_command", df),
    command: "df -h",
    reason: "look",
    risk: "read_only",
    covers: { exact: { command: "df -h" } },
  },
  { type: "approval.closed", toolCallId: "c1", decision: "allow", by: "ann" },
  starts("c1", "run_command", df),
  ends("c1", "run_command", "42 %"),
  step(1, 2),
  reply("", 2, call("c2", "task_complete", { summary: "Healthy." })),
  starts("c2", "task_complete", { summary: "Healthy." }),
  ends("c2", "task_complete", "Healthy."),
  done(1, "end_turn", 2),
);

describe("a turn", () => {
  test("has a prompt, an answer, one card for a call, a summary and an end", () => {
    const transcript = fold(emptyTranscript, task);
    expect(kinds(transcript)).toEqual(["prompt", "answer", "step", "complete", "end"]);
    expect(lastStep(transcript)).toMatchObject({
      cardKind: "command",
      command: "df -h",
      reason: "look",
      risk: "read_only",
      decided: { state: "allowed", by: "ann", session: false },
      outcome: { status: "ok", output: "42 %", exitCode: 0 },
    });
    expect(textOf(transcript, "complete")).toBe("Healthy.");
    expect(transcript).toMatchObject({ phase: "idle", turn: 1, lastPrompt: "check the disk", seq: 13 });
    expect(transcript.usage).toEqual({ inputTokens: 20, outputTokens: 10, cachedTokens: 0 });
  });

  test("shows the retries of a request as one notice", () => {
    const retry = (wait: string, attempt: number, reason: string) =>
      live("notice", { content: `retrying in ${wait}, attempt ${attempt} of 5: ${reason}` });
    const { items } = fold(emptyTranscript, [
      ...log(opening, prompt("x", 1), step(1, 1)),
      retry("0.5 s", 2, "no answer"),
      retry("1 s", 3, "no answer"),
      retry("2 s", 4, "busy"),
      live("notice", { content: "unrelated" }),
      live("notice", { content: "unrelated" }),
    ]);
    expect(items.flatMap((item) => (item.kind === "notice" ? [item.text] : []))).toEqual([
      "retrying in 2 s, attempt 4 of 5: busy",
      "unrelated",
      "unrelated",
    ]);
  });

  test("shows the retries of a request as one notice also if others come between them", () => {
    const retry = (wait: string, attempt: number) =>
      live("notice", { content: `retrying in ${wait}, attempt ${attempt} of 5: 429` });
    const shown = (...more: ServerMessage[]) =>
      fold(emptyTranscript, [
        ...log(opening, prompt("x", 1), step(1, 1)),
        retry("4 s", 2),
        live("notice", { content: "the prompt queue is full" }),
        retry("8 s", 3),
        ...more,
      ]).items.flatMap((item) => (item.kind === "notice" ? [item.text] : []));
    expect(shown()).toEqual(["retrying in 8 s, attempt 3 of 5: 429", "the prompt queue is full"]);
    const answer = live("assistant.delta", { content: "whole" });
    expect(shown(answer)).toEqual(["retried twice (429)", "the prompt queue is full"]);
  });

  test("shows the retries of replies that break off as one notice", () => {
    const breaks = (attempt: number) => [
      live("assistant.delta", { content: "half" }),
      live("notice", { content: `retrying in 1 s, attempt ${attempt} of 5: the connection broke` }),
      live("assistant.restarted", {}),
    ];
    const { items } = fold(emptyTranscript, [
      ...log(opening, prompt("x", 1), step(1, 1)),
      ...breaks(2),
      ...breaks(3),
      live("assistant.delta", { content: "whole" }),
    ]);
    expect(items.slice(1)).toMatchObject([
      { kind: "notice", text: "retried twice (the connection broke)" },
      { kind: "answer", text: "whole" },
    ]);
  });

  test("says how often a request was tried again, after its answer or its failure", () => {
    const begin = log(opening, prompt("x", 1), step(1, 1));
    const retry = live("notice", { content: "retrying in 4 s, attempt 2 of 5: 429: slow, down" });
    const shown = (messages: ServerMessage[]) =>
      fold(emptyTranscript, messages).items.flatMap((item) => (item.kind === "notice" ? [item.text] : []));
    expect(shown([...begin, retry])).toEqual(["retrying in 4 s, attempt 2 of 5: 429: slow, down"]);
    const once = ["retried once (429: slow, down)"];
    expect(shown([...begin, retry, live("assistant.reasoning", { content: "hm" })])).toEqual(once);
    const failed = log(opening, prompt("x", 1), step(1, 1), { type: "step.failed", message: "429" });
    expect(shown([...failed.slice(0, -1), retry, ...failed.slice(-1)])).toEqual(once);
  });

  test("does not say that a request was tried again if it was stopped, maybe before that", () => {
    const retry = live("notice", { content: "retrying in 30 s, attempt 2 of 5: 429" });
    const delta = live("assistant.delta", { content: "half" });
    const stopped = log(opening, prompt("x", 1), step(1, 1), done(1, "cancelled"));
    const shown = (...notices: ServerMessage[]) =>
      fold(emptyTranscript, [...stopped.slice(0, -1), ...notices, ...stopped.slice(-1)]).items.flatMap(
        (item) => (item.kind === "notice" ? [item.text] : []),
      );
    expect(shown(retry)).toEqual(["the request failed once (429)"]);
    expect(shown(retry, delta)).toEqual(["retried once (429)"]);
  });

  test("shows no card for a task list, which is shown by itself", () => {
    const messages = log(first, prompt("check the disk", 1), step(1, 1), ends("c9", "todo", "0 of 1 done"));
    expect(kinds(fold(emptyTranscript, messages))).toEqual(["prompt"]);
  });

  test("is the same however its messages are batched, and earlier transcripts are not changed", () => {
    const whole = fold(emptyTranscript, task);
    let one = emptyTranscript;
    for (const message of task) {
      const before = structuredClone(one);
      const next = fold(one, [message]);
      expect(one).toEqual(before);
      one = next;
    }
    expect(one).toEqual(whole);
  });

  test("keeps unchanged items as the same objects", () => {
    const before = fold(emptyTranscript, task);
    const after = fold(before, log(...Array(13).fill([]), prompt("more", 2)).slice(-2));
    expect(after.items[2]).toBe(before.items[2]);
  });

  test("that was stopped or failed says so", () => {
    const stopped = fold(
      emptyTranscript,
      log(first, prompt("x", 1), step(1, 1), state("stopping", 1, 1), done(1, "cancelled")),
    );
    expect(stopped.items.at(-1)).toMatchObject({ kind: "end", reason: "cancelled" });
    const failed = fold(
      emptyTranscript,
      log(
        first,
        prompt("x", 1),
        step(1, 1),
        { type: "step.failed", iteration: 1, kind: "auth", message: "no key" },
        [{ type: "error", message: "the key is refused" }, done(1, "failed")],
      ),
    );
    expect(failed.items.at(-1)).toMatchObject({ kind: "end", reason: "failed", error: "the key is refused" });
    const quiet = fold(
      emptyTranscript,
      log(
        first,
        prompt("x", 1),
        step(1, 1),
        { type: "step.failed", iteration: 1, kind: "auth", message: "no key" },
        done(1, "failed"),
      ),
    );
    expect(quiet.items.at(-1)).toMatchObject({ error: "no key" });
  });
});

describe("the models that received tool output", () => {
  const finished = { type: "step.finished", iteration: 1, usage };
  const output = { type: "tool.finished", toolCallId: "c1", name: "bash", status: "ok", output: "shown" };
  const shown = [first, prompt("x", 1), step(1, 1), finished, output];
  const next = (model: string) => state("thinking", 1, 2, { event: "step_started", model });
  const failed = (kind: string) => ({ type: "step.failed", iteration: 2, kind, message: "no" });

  test("are those that were asked after it, not before", () => {
    const models = (...events: object[]) => fold(emptyTranscript, log(...shown, ...events)).readers.models;
    expect(models()).toEqual([]);
    expect(models(next("gemini/flash"), finished)).toEqual(["gemini/flash"]);
    expect(models(next("gemini/flash"), failed("unreachable"))).toEqual(["gemini/flash"]);
    expect(models(next("gemini/flash"), failed("withheld"))).toEqual([]);
    const other = { type: "configured", model: "openai/x" };
    const both = fold(
      emptyTranscript,
      log(...shown, next("gemini/flash"), finished, other, next("openai/x"), finished),
    );
    expect(both.readers.models).toEqual(["gemini/flash", "openai/x"]);
    expect(otherProviders(both.readers, "openai/x")).toEqual(["gemini"]);
  });
});

describe("a stream", () => {
  const begun = fold(emptyTranscript, log(first, prompt("x", 1), step(1, 1)));

  test("grows, and the whole message replaces it", () => {
    let transcript = fold(begun, [
      live("assistant.reasoning", { content: "hm" }),
      live("assistant.delta", { content: "I lo" }),
      live("assistant.delta", { content: "ok" }),
    ]);
    expect(transcript.items.at(-1)).toMatchObject({ kind: "answer", text: "I look", state: "streaming" });
    transcript = fold(transcript, [
      { type: "assistant.message", sessionId, seq: 4, more: true, content: "I look.", reasoning: "hm" },
      { type: "step.finished", sessionId, seq: 4, iteration: 1, usage },
    ]);
    expect(kinds(transcript)).toEqual(["prompt", "reasoning", "answer"]);
    expect(transcript.items.at(-1)).toMatchObject({ text: "I look.", state: "whole" });
  });

  test("is dropped when the request is repeated", () => {
    const transcript = fold(begun, [
      live("assistant.reasoning", { content: "bad" }),
      live("assistant.delta", { content: "half" }),
      live("assistant.restarted"),
      live("assistant.delta", { content: "whole" }),
    ]);
    expect(kinds(transcript)).toEqual(["prompt", "answer"]);
    expect(textOf(transcript, "answer")).toBe("whole");
  });

  test("shows the progress of the model until its step ends", () => {
    const reading = { promptDone: 512, promptTotal: 2_048, received: 0, receivingMs: 0 };
    const told = fold(begun, [live("assistant.progress", reading)]);
    expect(told.progress).toEqual({ prompt: { done: 512, total: 2_048 }, received: 0, receivingMs: 0 });
    const receiving = { received: 43, receivingMs: 3_500 };
    const later = fold(told, [live("assistant.progress", receiving)]);
    expect(later.progress).toEqual({ prompt: undefined, ...receiving });
    expect(fold(later, [live("assistant.restarted")]).progress).toBeUndefined();
    const over = fold(later, [{ type: "step.finished", sessionId, seq: 4, iteration: 1, usage }]);
    expect(over.progress).toBeUndefined();
    expect(fold(over, [live("assistant.progress", receiving)]).progress).toBeUndefined();
  });

  test("of a step that ended is dropped", () => {
    const over = fold(begun, [{ type: "step.finished", sessionId, seq: 4, iteration: 1, usage }]);
    expect(fold(over, [live("assistant.delta", { content: "late" })]).items).toEqual(over.items);
  });

  test("that broke off stays and is marked as broken", () => {
    const transcript = fold(begun, [
      live("assistant.delta", { content: "half" }),
      { type: "step.failed", sessionId, seq: 4, iteration: 1, kind: "unreachable", message: "gone" },
    ]);
    expect(transcript.items.at(-1)).toMatchObject({ text: "half", state: "broken" });
  });

  test("that a user stopped is not marked as broken, as the end of the turn says so", () => {
    const half = [live("assistant.delta", { content: "half" })];
    const broken = log(opening, prompt("x", 1), step(1, 1), {
      type: "step.failed",
      iteration: 1,
      message: "",
    });
    const ends = (reason: string) =>
      fold(emptyTranscript, [
        ...broken.slice(0, -1),
        ...half,
        ...broken.slice(-1),
        { ...done(1, reason), sessionId, seq: 9 } as unknown as ServerMessage,
      ]).items.flatMap((item) => (item.kind === "answer" ? [item.state] : []));
    expect([ends("cancelled"), ends("failed")]).toEqual([["stopped"], ["broken"]]);
  });

  test("that broke off before another one is not marked as stopped", () => {
    const delta = live("assistant.delta", { content: "half" });
    const failure = { type: "step.failed", iteration: 1, kind: "unreachable", message: "gone" };
    const events = log(opening, prompt("x", 1), step(1, 1), failure, step(1, 2), done(1, "cancelled"));
    const at = events.findIndex(({ type }) => type === "step.failed");
    const messages = [...events.slice(0, at), delta, ...events.slice(at, -1), delta, ...events.slice(-1)];
    const states = fold(emptyTranscript, messages).items.flatMap((item) =>
      item.kind === "answer" ? [item.state] : [],
    );
    expect(states).toEqual(["broken", "stopped"]);
  });

  test("is bounded", () => {
    const long = "x".repeat(LIVE_TEXT_MAX / 2 + 10);
    const transcript = fold(
      begun,
      [1, 2, 3].map(() => live("assistant.delta", { content: long })),
    );
    expect(textOf(transcript, "answer")).toHaveLength(LIVE_TEXT_MAX);
  });

  test("shows a gap where chunks were missed between two connections", () => {
    const half = fold(begun, [live("assistant.delta", { content: "one" })]);
    const again = fold(half, [{ ...opening, seq: undefined, more: undefined, lastSeq: 3 } as ServerMessage]);
    const after = fold(again, [live("assistant.delta", { content: "three" })]);
    expect(textOf(after, "answer")).toBe("one\n\n[…]\n\nthree");
    expect(after.items).toHaveLength(2);
  });
});

describe("a proposal", () => {
  const asked = fold(emptyTranscript, task.slice(0, 8));
  const closed = (fields: object) =>
    fold(asked, [
      { type: "approval.closed", sessionId, seq: 6, toolCallId: "c1", by: "bob", ...fields } as ServerMessage,
    ]);

  test("waits, and closes when it is answered anywhere", () => {
    expect(pendingApproval(asked)?.call).toBe("c1");
    const after = closed({ decision: "reject", reason: "not now" });
    expect(pendingApproval(after)).toBeUndefined();
    expect(lastStep(after)?.decided).toEqual({ state: "rejected", by: "bob", reason: "not now" });
  });

  test("that was edited shows what runs and what was proposed", () => {
    const after = closed({ decision: "allow_session", command: "df -h /" });
    expect(lastStep(after)).toMatchObject({
      command: "df -h /",
      editedFrom: "df -h",
      decided: { state: "allowed", by: "bob", session: true },
    });
    const started = fold(after, [
      {
        type: "tool.call",
        sessionId,
        seq: 7,
        toolCallId: "c1",
        name: "run_command",
        arguments: { command: "df -h /" },
        origin: "model",
      },
    ]);
    expect(lastStep(started)).toMatchObject({ command: "df -h /", editedFrom: "df -h", started: true });
  });

  test("is closed when its turn is stopped", () => {
    const after = fold(asked, [
      {
        ...ends("c1", "run_command", "the turn was stopped", "rejected"),
        sessionId,
        seq: 6,
      } as ServerMessage,
    ]);
    expect(pendingApproval(after)).toBeUndefined();
    expect(lastStep(after)?.decided.state).toBe("rejected");
  });
});

describe("a call", () => {
  const runs = fold(
    emptyTranscript,
    log(
      first,
      prompt("x", 1),
      step(1, 1),
      reply("", 1, call("c1", "run_command", df)),
      starts("c1", "run_command", df),
    ),
  );

  test("shows the end of its output, and how much came before", () => {
    const pieces = Array.from({ length: 50 }, (_, at) =>
      live("tool.output", { toolCallId: "c1", content: `${"y".repeat(4_000)}${at}\n` }),
    );
    const shown = lastStep(fold(runs, pieces));
    expect(shown?.tail.length).toBeLessThanOrEqual(LIVE_OUTPUT_MAX);
    expect(shown?.tail.endsWith("49\n")).toBe(true);
    expect((shown?.tail.length ?? 0) + (shown?.skipped ?? 0)).toBe(50 * 4_001 + 90);
    expect((shown?.tail.split("\n").length ?? 0) - 1 + (shown?.skippedLines ?? 0)).toBe(50);
  });

  test("of another tool with an argument `command` is not shown as a command", () => {
    const args = { path: "f", content: "x", command: "ls" };
    const step = lastStep(
      fold(
        emptyTranscript,
        log(
          [opening],
          prompt("x", 1),
          reply("", 1, call("c1", "write_file", args)),
          starts("c1", "write_file", args),
        ),
      ),
    );
    expect(step).toMatchObject({ cardKind: "tool", command: "Write f" });
  });

  test("shows on which of several hosts it has ended, however its output is split", () => {
    const text =
      "web1 | [9/9 hosts] web3: ok, 1 ms\n[1/4 hosts] web1: failed, exit code 3, 8 ms\n" +
      "[2/4 hosts] web2: timeout, 30.5 s\n[3/4 hosts] web3: not run\n" +
      "[4/4 hosts] web4: ok, exit code 0, 2 min 5 s\n";
    for (const size of [1, 7, 1000]) {
      const pieces = text.match(new RegExp(`[\\s\\S]{1,${size}}`, "g")) ?? [];
      const outputs = pieces.map((content) => live("tool.output", { toolCallId: "c1", content }));
      expect(lastStep(fold(runs, outputs))?.hostsEnded).toEqual([
        { host: "web1", status: "failed", exitCode: 3, durationMs: 8 },
        { host: "web2", status: "timeout", exitCode: undefined, durationMs: 30_500 },
        { host: "web3", status: "rejected", exitCode: undefined, durationMs: 0 },
        { host: "web4", status: "ok", exitCode: 0, durationMs: 125_000 },
      ]);
    }
  });

  test("keeps its whole outcome and ignores output after its end", () => {
    const after = fold(runs, [
      { ...ends("c1", "run_command", "all", "failed", 2), sessionId, seq: 6 } as ServerMessage,
      live("tool.output", { toolCallId: "c1", content: "late" }),
    ]);
    expect(lastStep(after)).toMatchObject({
      tail: "",
      outcome: { status: "failed", exitCode: 2, output: "all" },
    });
  });

  test("that the policy refused has a card with its command", () => {
    const before = fold(
      emptyTranscript,
      log(first, prompt("x", 1), step(1, 1), reply("", 1, call("c1", "run_command", df))),
    );
    const after = fold(before, [
      { ...ends("c1", "run_command", "no", "rejected"), sessionId, seq: 5 } as ServerMessage,
    ]);
    expect(lastStep(after)).toMatchObject({
      command: "df -h",
      decided: { state: "rejected", by: undefined },
    });
  });

  test("looks like keys, a command, or another tool", () => {
    const cardKind = [
      ["send_keys", { keys: "q Enter", reasoning: "leave" }, "send_keys", "q Enter"],
      ["bash", { command: "ls" }, "command", "ls"],
      ["write_file", { path: "a", content: "b" }, "tool", "Write a"],
      ["mcp__disk__check", { name: "sda", reasoning: "look" }, "tool", 'mcp__disk__check("sda")'],
    ] as const;
    for (const [name, args, look, command] of cardKind) {
      const after = fold(
        emptyTranscript,
        log(first, prompt("x", 1), step(1, 1), reply("", 1), starts("c9", name, args)),
      );
      expect(lastStep(after)).toMatchObject({ cardKind: look, command });
    }
  });
});

test("a prompt shows its images, one in a line", () => {
  const image = { artifact: "image-0.png", mediaType: "image/png", width: 1280, height: 720 };
  const images = [{ ...image, name: "photo.png" }, image];
  const shown = fold(emptyTranscript, log(first, [{ type: "user.message", content: "look", images }]));
  expect(shown.items.at(-1)).toMatchObject({
    text: "look\n[image 1280×720 photo.png]\n[image 1280×720]",
  });
});

test("a call without a model names who asked for it, before and after its start", () => {
  const begins = (origin: string, by?: string) => [
    state("running", 1, 0, { event: "turn_started", origin, by }),
  ];
  const undo = { call: "direct_1", step: 3 };
  const asked = {
    type: "approval.request",
    ...call("d2", "undo", undo),
    command: "undo step 3",
    reason: "",
    risk: "changes",
    covers: { kind: "exact", command: "undo step 3" },
  };
  const label = (...messages: object[][]) => {
    const step = lastStep(fold(emptyTranscript, log(first, ...messages)));
    return step && [step.command, originLabel(step, (name) => name)];
  };
  expect(label(begins("typed", "bob"), [asked])).toEqual(["undo call 3", "requested by bob"]);
  const started = { ...starts("d1", "run_command", { command: "uptime" }), origin: "typed" };
  expect(label(begins("typed", "bob"), [started])).toEqual(["uptime", "typed by bob"]);
  expect(label(begins("typed"), [started])).toEqual(["uptime", "typed by a user"]);
  const model = starts("c1", "run_command", { command: "uptime" });
  expect(label(begins("typed", "bob"), [started], prompt("x", 2), [model])).toEqual(["uptime", undefined]);
});

test("every prompt names its sender once a second person takes part", () => {
  const by = (name: string, content: string) => [{ type: "user.message", content, by: name }];
  const alone = log([{ ...opening, openedBy: "ada" }, idle], by("ada", "one"), done(1), by("ada", "two"));
  const named = (messages: ServerMessage[]) =>
    fold(emptyTranscript, messages).items.flatMap((item) => (item.kind === "prompt" ? [item.named] : []));
  expect(named(alone)).toEqual([false, false]);
  const closed = (name: string) => ({
    type: "approval.closed",
    toolCallId: "c",
    decision: "allow",
    by: name,
  });
  const later = (message: object) => log(...Array(4).fill([]), message);
  expect(named([...alone, ...later(closed("sysop"))])).toEqual([false, false]);
  expect(named([...alone, ...later(closed("bob"))])).toEqual([true, true]);
  expect(named([...alone, ...later(by("bob", "three"))])).toEqual([true, true, true]);
});

describe("what waits", () => {
  test("prompts are queued and leave the queue when their turn begins or all is stopped", () => {
    const two = log(
      first,
      prompt("one", 1),
      [{ type: "prompt.queued", content: "two" }, state("thinking", 1, 0, { queued: 1 })],
      [{ type: "prompt.queued", content: "three" }, state("thinking", 1, 0, { queued: 2 })],
    );
    const waits = fold(emptyTranscript, two);
    expect(waits.queued).toEqual(["two", "three"]);
    const next = log(...Array(4).fill([]), done(1), [
      { type: "user.message", content: "two" },
      state("thinking", 2, 0, { queued: 1 }),
    ]);
    const begun = fold(waits, next);
    expect(begun.queued).toEqual(["three"]);
    expect(begun.items.at(-1)).toMatchObject({ id: "prompt-2", text: "two" });
    const withdrawn = log(...Array(4).fill([]), { type: "prompt.withdrawn", content: "three" });
    expect(fold(waits, withdrawn).queued).toEqual(["two"]);
    const stopped = fold(waits, log(...Array(4).fill([]), state("stopping", 1)));
    expect(stopped.queued).toEqual([]);
  });

  test("questions are repeated by each connection, and closed when anybody answers", () => {
    const question = { id: 3, kind: "secret" as const, from: "sudo", prompt: "Password:" };
    const asked = fold(emptyTranscript, [
      live("question", { question }),
      live("question", { question: { ...question, id: 4 } }),
    ]);
    expect(asked.questions.map(({ id }) => id)).toEqual([3, 4]);
    expect(
      fold(asked, [live("question.closed", { id: 3, by: "ann" })]).questions.map(({ id }) => id),
    ).toEqual([4]);
    const again = fold(asked, [
      { ...opening, seq: undefined, lastSeq: 0 } as ServerMessage,
      live("question", { question }),
    ]);
    expect(again.questions.map(({ id }) => id)).toEqual([3]);
  });

  test("a pause that nobody asked for is shown with its reason", () => {
    const paused = (pauseReason: string) =>
      fold(
        emptyTranscript,
        log(first, prompt("x", 1), state("paused", 1, 1, { event: "paused", pauseReason })),
      );
    expect(paused("asked").phase).toBe("paused");
    expect(paused("asked").items).toHaveLength(1);
    expect(paused("loop").items.at(-1)).toMatchObject({ kind: "notice", weight: "warning" });
  });

  test("an interruption says if a command was running", () => {
    const stops = state("paused", 1, 1, { event: "paused", pauseReason: "interrupted" });
    const started = [starts("c1", "run_command", { command: "make" })];
    const ended = ends("c1", "run_command", "outcome unknown", "interrupted");
    const said = (...events: (object | object[])[]) =>
      fold(emptyTranscript, log(first, prompt("x", 1), ...events)).items.at(-1);
    const idle = { text: expect.stringContaining("no command was running") };
    const running = { text: expect.stringContaining("may not have finished") };
    expect(said(stops)).toMatchObject(idle);
    expect(said(started, ended, stops)).toMatchObject(running);
    const resumed = state("thinking", 1, 1, { event: "resumed" });
    expect(said(started, ended, stops, resumed, stops)).toMatchObject(idle);
  });
});

describe("history", () => {
  test("ends at `lastSeq`", () => {
    const greeting = { ...opening, seq: undefined, more: undefined, lastSeq: 13 } as ServerMessage;
    const part = fold(emptyTranscript, [greeting, ...task.slice(0, 5)]);
    expect(isCaughtUp(part)).toBe(false);
    expect(isCaughtUp(fold(part, task.slice(5)))).toBe(true);
    expect(isCaughtUp(fold(emptyTranscript, [{ ...greeting, lastSeq: 0 } as ServerMessage]))).toBe(true);
  });

  test("that was cleared is above a line", () => {
    const cleared = fold(fold(emptyTranscript, task), [
      {
        ...state("idle", 1, 2, { event: "history_cleared", historyCleared: true }),
        sessionId,
        seq: 14,
      } as ServerMessage,
    ]);
    expect(contextStart(cleared)).toBe(6);
    expect(cleared.lastPrompt).toBeUndefined();
    expect(cleared.items.filter(({ kind }) => kind === "cleared")).toHaveLength(1);
  });

  test("is bounded: the oldest go first", () => {
    const many: ServerMessage[] = Array.from({ length: ITEMS_MAX + 2_500 }, (_, at) =>
      live("notice", { content: `${at}` }),
    );
    const transcript = fold(fold(emptyTranscript, many), [live("notice", { content: "last" })]);
    expect(transcript.items.length).toBeLessThanOrEqual(ITEMS_MAX + 1_000);
    expect(transcript.dropped + transcript.items.length).toBe(ITEMS_MAX + 2_501);
    expect(textOf(transcript, "notice")).toBe("last");
  });
});

describe("an unknown message", () => {
  test("changes nothing", () => {
    const before = fold(emptyTranscript, task);
    const after = fold(before, [
      live("some.later.type", { content: "x" }),
      live("terminal.output", { data: "x" }),
      { type: "heartbeat" },
    ]);
    expect(after.items).toEqual(before.items);
    expect(fold(before, [live("tool.output", { toolCallId: "nobody", content: "x" })]).items).toEqual(
      before.items,
    );
  });

  test("the mode of the session is shown, and a change of it is reported", () => {
    expect(fold(emptyTranscript, task).facts?.mode).toBe("agent");
    const told = fold(emptyTranscript, [{ ...opening, mode: "chat" } as ServerMessage]);
    expect(told.facts?.mode).toBe("chat");
    const changed = fold(told, [{ type: "configured", sessionId, seq: 2, mode: "agent" }]);
    expect(changed.facts?.mode).toBe("agent");
    expect(changed.items.at(-1)).toMatchObject({
      kind: "notice",
      text: "agent mode: the next turn has tools",
    });
  });

  test("a change of model or approval is reported and kept", () => {
    const after = fold(fold(emptyTranscript, task), [
      { type: "configured", sessionId, seq: 14, model: "ollama/phi3", approve: "auto" },
    ]);
    expect(after.facts).toMatchObject({ model: "ollama/phi3", approve: "auto" });
    expect(textOf(after, "notice")).toContain("ollama/phi3");
  });
});

describe("the plan of a read-only session", () => {
  const refusal =
    "denied: this session is read-only (approve = never); nothing ran. The call was recorded as a step";
  const touch = (name: string) => ({ command: `touch ${name}` });
  const denied = [
    first,
    prompt("go", 1),
    step(1, 1),
    reply("", 1, call("c1", "run_command", touch("one")), call("c2", "run_command", touch("two"))),
    ends("c1", "run_command", refusal, "rejected"),
    ends("c2", "run_command", refusal, "rejected"),
    done(1),
  ];
  const commands = (...more: (object | object[])[]) =>
    proposedSteps(fold(emptyTranscript, log(...denied, ...more))).map(({ command }) => command);

  test("lists the calls that were denied, without those that ran since", () => {
    expect(commands()).toEqual(["touch one", "touch two"]);
    const ran = { ...starts("d1", "run_command", touch("one")), origin: "routine" };
    const direct = [state("running", 2, 0, { event: "turn_started" }), ran];
    expect(commands(...direct, ends("d1", "run_command", ""), done(2))).toEqual(["touch two"]);
    expect(commands(prompt("something else", 2))).toEqual([]);
  });

  test("a denied call that a user typed is shown as refused", () => {
    const typed = { ...starts("d1", "run_command", touch("one")), origin: "typed" };
    const direct = [state("running", 2, 0, { event: "turn_started" }), typed];
    const ended = ends("d1", "run_command", refusal, "rejected");
    const after = fold(emptyTranscript, log(...denied, ...direct, ended, done(2)));
    const step = after.items.find((item): item is Step => item.kind === "step" && item.id.includes("d1"));
    expect(step).toMatchObject({ command: "touch one", decided: { state: "rejected" } });
    expect(proposedSteps(after).map(({ command }) => command)).toEqual(["touch one", "touch two"]);
  });

  test("does not list calls that a person refused", () => {
    expect(commands(ends("c1", "run_command", "the person refused this", "rejected"))).toEqual(["touch two"]);
  });
});

test("an approval keeps its conditions, and lists each person who allowed it once", () => {
  const asked = {
    type: "approval.request",
    toolCallId: "c1",
    name: "run_command",
    command: "touch a",
    arguments: { command: "touch a" },
    reason: "",
    risk: "changes",
    covers: { kind: "exact", command: "touch a" },
    expiresAt: 9_000,
    approvals: 2,
  };
  const given = { type: "approval.given", toolCallId: "c1", by: "ann", needed: 2 };
  const waiting = fold(emptyTranscript, log([opening], [asked, state("waiting", 1)], [given], [given]));
  const step = waiting.items.find((item): item is Step => item.kind === "step");
  expect(step).toMatchObject({ expiresAt: 9_000, people: 2, given: ["ann"] });
});

test("the end of a bounded auto says which bound was reached, and only that", () => {
  const ended = { type: "configured", approve: "ask", reached: "2 commands" };
  const after = fold(emptyTranscript, log(first, ended));
  expect(after.items.flatMap((item) => (item.kind === "notice" ? [item.text] : []))).toEqual([
    "auto ended after 2 commands; the mode is `ask` again",
  ]);
});

test("rules that a server added without names, as at a resume, are not reported", () => {
  const after = fold(emptyTranscript, log(first, { type: "configured", rules: true }));
  expect(after.items.filter(({ kind }) => kind === "notice")).toEqual([]);
});

test("the bounds of auto come from the newest state", () => {
  const auto = { commands: 2 };
  const begun = fold(emptyTranscript, log([opening], [state("idle", 0, 0, { approve: "auto", auto })]));
  expect(begun.facts?.auto).toEqual(auto);
  const hello = { ...opening, seq: undefined, approve: "auto", lastSeq: 2 } as ServerMessage;
  expect(fold(begun, [hello]).facts?.auto).toEqual(auto);
  const ended = fold(begun, [live("state", { ...state("idle", 0), seq: 3 })]);
  expect(ended.facts?.auto).toBeUndefined();
});

test("a notice of work around a command ends with the command's first output, or with the command", () => {
  const begun = log(first, prompt("go", 1), step(1, 1), reply("", 1, call("c1", "run_command", df)));
  const run = { ...starts("c1", "run_command", df), sessionId, seq: 5 } as ServerMessage;
  const notices = (...messages: ServerMessage[]) =>
    fold(emptyTranscript, [...begun, run, ...messages]).items.flatMap((item) =>
      item.kind === "notice" ? [item.text] : [],
    );
  const saving = live("notice", { content: "saving files for undo on web1…" });
  const comparing = live("notice", { content: "comparing files…" });
  const output = live("tool.output", { toolCallId: "c1", content: "line\n" });
  const end = { ...ends("c1", "run_command", ""), sessionId, seq: 6 } as ServerMessage;
  expect(notices(saving)).toEqual(["saving files for undo on web1…"]);
  expect(notices(saving, output)).toEqual([]);
  expect(notices(saving, output, comparing)).toEqual(["comparing files…"]);
  expect(notices(saving, comparing)).toEqual(["comparing files…"]);
  expect(notices(saving, output, comparing, end)).toEqual([]);
  expect(notices(live("notice", { content: "unrelated …" }), output, end)).toEqual(["unrelated …"]);
  const ofHost = (name: string) => live("notice", { content: `${name}: saving files for undo on ${name}…` });
  expect(notices(ofHost("web1"), ofHost("web2"))).toEqual(["web2: saving files for undo on web2…"]);
  const waiting = (name: string) =>
    live("notice", { content: `checking the command on 4 hosts: waiting for ${name}…` });
  expect(notices(waiting("dead, gone"), waiting("dead"))).toEqual([
    "checking the command on 4 hosts: waiting for dead…",
  ]);
  expect(notices(ofHost("web1"), end)).toEqual([]);
});

test("a call is undone by its event, also in a later turn, and redone by the undo of its undo", () => {
  const rm = { command: "rm x" };
  const changes = { changed: [{ kind: "file", name: "x", how: "removed" }], undo: "exact" };
  const undo = (id: string, of: string) => [
    [state("running", 2, 0, { event: "turn_started" })],
    starts(id, "undo", { step: 1, call: of, records: [] }),
    { type: "undone", toolCallId: of, step: 1, by: "ada", how: "partly" },
    { ...ends(id, "undo", ""), ...changes },
    done(2),
  ];
  const begun = [
    first,
    prompt("x", 1),
    reply("", 1, call("c1", "run_command", rm)),
    starts("c1", "run_command", rm),
    { ...ends("c1", "run_command", ""), ...changes },
    done(1),
  ];
  const undoneIn = (...events: (object | object[])[]) =>
    fold(emptyTranscript, log(...events)).items.flatMap((item) =>
      item.kind === "step" ? [[item.call, item.undone]] : [],
    );
  expect(undoneIn(...begun, ...undo("d1", "c1"))).toEqual([
    ["c1", "partly"],
    ["d1", undefined],
  ]);
  expect(undoneIn(...begun, ...undo("d1", "c1"), ...undo("d2", "d1"))).toEqual([
    ["c1", undefined],
    ["d1", "partly"],
    ["d2", undefined],
  ]);
  const failed = { type: "undone", toolCallId: "c1", step: 1, by: "ada", how: "none" };
  expect(undoneIn(...begun, failed)).toEqual([["c1", undefined]]);
  // What file tools changed is undone without an event.
  const files = [starts("d1", "undo", { step: 1, call: "c1", changes: [] }), ends("d1", "undo", "")];
  expect(undoneIn(...begun, ...files)[0]).toEqual(["c1", "exact"]);
});

test("an undo without a number marks the calls of file tools that it undid, and its undo redoes them", () => {
  const change = (path: string, before: string, afterHash: string) => ({ path, before, afterHash });
  const write = (id: string, ...changes: object[]) => [
    starts(id, "write_file", { path: "a" }),
    { ...ends(id, "write_file", ""), changes },
  ];
  const made = { path: "b", afterHash: "h4" };
  const begun = [
    first,
    prompt("x", 1),
    ...write("c1", change("a", "a0", "h1")),
    done(1),
    prompt("y", 2),
    ...write("c2", change("a", "a1", "h2")),
    ...write("c3", change("a", "a2", "h3"), made),
    done(2),
  ];
  const sent = [
    { path: "a", before: "a1", after_hash: "h2" },
    { path: "a", before: "a2", after_hash: "h3" },
    { path: "b", after_hash: "h4" },
  ];
  const undo = (id: string, args: object, ...changes: object[]) => [
    starts(id, "undo", args),
    { ...ends(id, "undo", ""), changes },
  ];
  const undoneIn = (...events: object[]) =>
    fold(emptyTranscript, log(...begun, ...events)).items.flatMap((item) =>
      item.kind === "step" && item.undone ? [item.call] : [],
    );
  const reverted = undo("d1", { changes: sent }, change("a", "a3", "h1"));
  expect(undoneIn(...reverted)).toEqual(["c2", "c3"]);
  expect(undoneIn(...reverted, ...undo("d2", { step: 4, call: "d1", changes: [] }))).toEqual(["d1"]);
  expect(undoneIn(...undo("d1", { changes: sent.slice(0, 2) }))).toEqual(["c2"]);
});

describe("an undo without a number, of a change that several turns made,", () => {
  const change = { path: "a", before: "x", afterHash: "y" };
  const back = { path: "a", before: "y", afterHash: "x" };
  const write = (turn: number, id: string, made = change) => [
    prompt("x", turn),
    starts(id, "write_file", { path: "a" }),
    { ...ends(id, "write_file", ""), changes: [made] },
    done(turn),
  ];
  const undo = (turn: number, id: string, args: object) => [
    [state("running", turn, 0, { event: "turn_started" })],
    { ...starts(id, "undo", args), origin: "typed" },
    { ...ends(id, "undo", ""), changes: [back] },
    done(turn),
  ];
  const sent = ({ path, before, afterHash }: typeof change) => ({
    changes: [{ path, before, after_hash: afterHash }],
  });
  const undoneIn = (...events: (object | object[])[]) =>
    fold(emptyTranscript, log(first, ...events)).items.flatMap((item) =>
      item.kind === "step" && item.undone ? [item.call] : [],
    );
  const both = [...write(1, "c1"), ...write(2, "c2")];

  test("marks the calls of the last turn that is not undone", () => {
    expect(undoneIn(...both, ...undo(3, "d1", sent(change)))).toEqual(["c2"]);
    const second = undo(4, "d2", sent(change));
    expect(undoneIn(...both, ...undo(3, "d1", sent(change)), ...second)).toEqual(["c1", "c2"]);
  });

  test("is redone without a change of what other undos undid", () => {
    const again = [...undo(2, "d1", sent(change)), ...write(3, "c2"), ...undo(4, "d2", sent(change))];
    const redo = undo(5, "d3", { step: 4, call: "d2", changes: [] });
    expect(undoneIn(...write(1, "c1"), ...again, ...redo)).toEqual(["c1", "d2"]);
    const byNumber = undo(3, "d1", { step: 2, call: "c2", changes: [] });
    const redone = undo(5, "d3", { step: 4, call: "d2", changes: [] });
    const whole = [...both, ...byNumber, ...undo(4, "d2", sent(change)), ...redone];
    expect(undoneIn(...whole)).toEqual(["c2", "d2"]);
  });

  test("does not mark an undo by a user, which made the same change", () => {
    const turns = [...write(1, "c1", back), ...write(2, "c2")];
    const byNumber = undo(3, "d1", { step: 2, call: "c2", changes: [] });
    expect(undoneIn(...turns, ...byNumber, ...undo(4, "d2", sent(back)))).toEqual(["c1", "c2"]);
  });
});

test("a command in the background has the state of its job, also after its turn", () => {
  const begun = [
    first,
    prompt("x", 1),
    starts("c1", "run_command", df),
    { type: "job.started", jobId: 1, toolCallId: "c1", command: "df -h", host: "web1" },
    ends("c1", "run_command", "running as job 1"),
    done(1),
  ];
  const job = (...more: object[]) => lastStep(fold(emptyTranscript, log(...begun, ...more)))?.job;
  expect(job()).toEqual({ jobId: 1, status: undefined, exitCode: undefined });
  expect(fold(emptyTranscript, log(...begun)).items.map(({ kind }) => kind)).toEqual([
    "prompt",
    "step",
    "end",
  ]);
  const ended = { type: "job.finished", jobId: 1, command: "", host: "web1", status: "failed", exitCode: 2 };
  expect(job(...prompt("y", 2), ended)).toEqual({ jobId: 1, status: "failed", exitCode: 2 });
});

test("a call that began before the page was connected has missed output until it ends", () => {
  const hello = live("session.created", { ...opening, seq: undefined, lastSeq: 3 });
  const events = log(first, prompt("x", 1), starts("c1", "run_command", df));
  const late = fold(emptyTranscript, [hello, ...events]);
  expect(lastStep(late)?.missedOutput).toBe(true);
  const end = { ...ends("c1", "run_command", "all"), sessionId, seq: 4 } as ServerMessage;
  expect(lastStep(fold(late, [end]))?.missedOutput).toBe(false);
  const there = fold(emptyTranscript, [{ ...hello, lastSeq: 0 } as ServerMessage, ...events]);
  expect(lastStep(there)?.missedOutput).toBe(false);
  // It was there, but lost the connection.
  expect(lastStep(fold(there, [hello]))?.missedOutput).toBe(true);
});

test("the task list is kept until the history is cleared, and each change is one line", () => {
  const tasks = (...states: string[]) => ({
    type: "todo",
    items: states.map((word, at) => ({ text: `task ${at + 1}`, state: word })),
  });
  const messages = log(first, tasks("active", "pending"), tasks("done", "active"), tasks("done", "done"));
  const after = fold(emptyTranscript, messages);
  expect(after.tasks.map(({ state }) => state)).toEqual(["done", "done"]);
  const later = fold(
    emptyTranscript,
    log(state("thinking", 1), tasks("active"), state("idle", 1), state("thinking", 2)),
  );
  expect([later.tasksTurn, later.turn]).toEqual([1, 2]);
  expect(after.items.map((item) => "text" in item && item.text)).toEqual([
    "tasks planned: 2",
    "task done: task 1",
    "task done: task 2",
  ]);
  const cleared = { ...state("idle", 0, 0, { event: "history_cleared" }), sessionId, seq: 9 };
  expect(fold(after, [cleared as ServerMessage]).tasks).toEqual([]);
});

test("what is allowed for the session is known until it is revoked, or the tools run elsewhere", () => {
  const exact = { exact: { command: "touch x" } };
  const program = { program: { program: "git", subcommand: "status" } };
  const asks = (toolCallId: string, covers: object) => [
    {
      type: "approval.request",
      toolCallId,
      name: "bash",
      command: "touch x",
      arguments: {},
      reason: "",
      covers,
    },
    { type: "approval.closed", toolCallId, decision: "allow_session", by: "ada" },
  ];
  const grants = (...messages: object[]) => fold(emptyTranscript, log(...messages)).grants;
  const both = [...asks("c1", exact), ...asks("c2", program), ...asks("c3", exact)];
  expect(grants(...both)).toEqual([exact, program]);
  const [asked] = asks("c4", program);
  const edited = {
    type: "approval.closed",
    toolCallId: "c4",
    decision: "allow_session",
    by: "ada",
    command: "ls",
  };
  expect(grants(asked ?? {}, edited)).toEqual([{ exact: { command: "ls" } }]);
  expect(grants({ ...asked, risk: "dangerous" }, edited)).toEqual([]);
  expect(grants({ ...asked, covers: undefined }, edited)).toEqual([]);
  expect(grants(...both, { type: "configured", revoked: [exact] })).toEqual([program]);
  expect(grants(...both, { type: "configured", lent: { tools: [], root: "" } })).toEqual([]);
});

test("the output so far of a job that a user reads is on its card", () => {
  const begun = [
    ...prompt("x", 1),
    starts("c1", "bash", { command: "make" }),
    { type: "job.started", jobId: 1, toolCallId: "c1", command: "make", host: "web1" },
    ends("c1", "bash", "running as job 1"),
  ];
  const reads = (output: string) => [
    { ...starts("c2", "jobs", { action: "read", id: 1 }), origin: "typed" },
    ends("c2", "jobs", output),
  ];
  const steps = (...more: object[]) =>
    fold(emptyTranscript, log(...begun, ...more)).items.flatMap((item) =>
      item.kind === "step" ? [item] : [],
    );
  const [job, reading] = steps(...reads("half\n[job 1 is running: make]"));
  expect(job?.job?.read).toEqual({ call: "c2", output: "half\n" });
  expect(reading?.isTold).toBe(true);
  const command = 'echo "[job 1 is running: x"';
  const odd = { type: "job.started", jobId: 1, toolCallId: "c1", command, host: "web1" };
  const [named] = steps(odd, ...reads(`half\n[job 1 is running: ${command}]`));
  expect(named?.job?.read?.output).toBe("half\n");
  const ended = { type: "job.finished", jobId: 1, command: "make", host: "web1", status: "ok" };
  expect(steps(ended, ...reads("all\n[job 1 ended, ok: make]"))[1]?.isTold).toBeUndefined();
});
