import { expect, test } from "vitest";
import type { ServerMessage, StopReason } from "../wire";
import { foldQueued, markAsked } from "./queued-prompts";

const sessionId = "s1";
const waits = [
  { content: "two", seq: 5 },
  { content: "three", seq: 6 },
];
const begins = (content: string, seq: number): ServerMessage => ({
  type: "user.message",
  sessionId,
  seq,
  content,
});
const queues = (content: string, seq: number): ServerMessage => ({
  type: "prompt.queued",
  sessionId,
  seq,
  content,
});
const state = (event: "cancel_asked" | "history_cleared" | "paused", seq: number): ServerMessage => ({
  type: "state",
  sessionId,
  seq,
  state: "stopping",
  turn: 1,
  iteration: 1,
  maxIterations: 20,
  approve: "ask",
  queued: 0,
  event,
});
const ends = (stopReason: StopReason, seq: number): ServerMessage => ({
  type: "assistant.done",
  sessionId,
  seq,
  metadata: {
    stopReason,
    turn: 1,
    iterations: 1,
    usage: { inputTokens: 0, outputTokens: 0, cachedTokens: 0 },
  },
});

const queue = (...waiting: typeof waits) => ({ waiting, held: [] });

test("a prompt leaves when its turn begins, and an earlier equal one is not its turn", () => {
  const messages = [begins("three", 4), begins("two", 7), ends("end_turn", 8)];
  expect(foldQueued(queue(...waits), messages)).toEqual({
    waiting: [{ content: "three", seq: 6 }],
    held: [],
    dropped: [],
  });
});

test("a prompt that this tab takes back is the newest with its text", () => {
  const again = { content: "two", seq: 8, asked: true };
  const withdrawn: ServerMessage = { type: "prompt.withdrawn", sessionId, seq: 9, content: "two" };
  const other: ServerMessage = { type: "prompt.withdrawn", sessionId, seq: 10, content: "another tab's" };
  expect(foldQueued(queue(...waits, again), [withdrawn, other])).toEqual({
    waiting: waits,
    held: [],
    dropped: [again],
  });
});

test("an equal prompt that somebody else takes back is not this tab's", () => {
  const withdrawn: ServerMessage = { type: "prompt.withdrawn", sessionId, seq: 9, content: "two" };
  expect(foldQueued(queue(...waits), [withdrawn])).toEqual({ waiting: waits, held: [], dropped: [] });
  const asked = markAsked(waits, "two", true);
  expect(asked).toEqual([{ content: "two", seq: 5, asked: true }, waits[1]]);
  expect(markAsked(asked, "two", false)).toEqual(waits);
});

test("a request to cancel drops what was queued before it", () => {
  const later = { content: "four", seq: 8 };
  const messages = [state("paused", 4), state("cancel_asked", 7)];
  expect(foldQueued(queue(...waits, later), messages)).toEqual({
    waiting: [later],
    held: [],
    dropped: waits,
  });
});

test.each(["cancelled", "paused"] as const)(
  "a turn that ends as %s holds what was queued before it",
  (reason) => {
    const later = { content: "four", seq: 8 };
    const messages = [state("paused", 4), ends(reason, 7)];
    expect(foldQueued(queue(...waits, later), messages)).toEqual({
      waiting: [later],
      held: waits,
      dropped: [],
    });
  },
);

test("a stop before a prompt was queued does not concern it", () => {
  expect(foldQueued(queue(...waits), [ends("cancelled", 3)])).toEqual({ ...queue(...waits), dropped: [] });
});

test("clearing the history drops nothing, as in the session", () => {
  const messages = [state("history_cleared", 7), ends("failed", 8)];
  expect(foldQueued(queue(...waits), messages)).toEqual({ ...queue(...waits), dropped: [] });
});

test("what is queued again after the end of a turn waits, wherever the messages are split", () => {
  const messages = [
    ends("paused", 7),
    state("history_cleared", 8),
    begins("!uptime", 9),
    queues("two", 10),
    queues("three", 11),
  ];
  for (let at = 0; at <= messages.length; at++) {
    const first = foldQueued(queue(...waits), messages.slice(0, at));
    const second = foldQueued(first, messages.slice(at));
    expect([first.dropped, second], `split at ${at}`).toEqual([
      [],
      {
        waiting: [
          { content: "two", seq: 10 },
          { content: "three", seq: 11 },
        ],
        held: [],
        dropped: [],
      },
    ]);
  }
});

test("an equal prompt that this tab has sent since is not what was held", () => {
  const [two] = waits;
  const sent = { content: "two", seq: 8 };
  const before = { waiting: [sent], held: two ? [two] : [] };
  expect(foldQueued(before, [queues("two", 8)])).toEqual({ ...before, dropped: [] });
});
