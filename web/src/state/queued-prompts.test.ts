import { expect, test } from "vitest";
import type { ServerMessage } from "../wire";
import { foldQueued } from "./queued-prompts";

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
const state = (event: "cancel_asked" | "paused", seq: number): ServerMessage => ({
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
const ends = (stopReason: "cancelled" | "paused" | "end_turn", seq: number): ServerMessage => ({
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

test("a prompt leaves when its turn begins, and an earlier equal one is not its turn", () => {
  const { waiting, dropped } = foldQueued(waits, [begins("three", 4), begins("two", 7), ends("end_turn", 8)]);
  expect(waiting).toEqual([{ content: "three", seq: 6 }]);
  expect(dropped).toEqual([]);
});

test.each([state("cancel_asked", 7), ends("cancelled", 7), ends("paused", 7)])(
  "a stop drops what was queued before it",
  (stop) => {
    const [two, three] = waits;
    expect(foldQueued([...waits, { content: "four", seq: 8 }], [state("paused", 4), stop])).toEqual({
      waiting: [{ content: "four", seq: 8 }],
      dropped: [two, three],
    });
  },
);

test("a stop before a prompt was queued does not concern it", () => {
  expect(foldQueued(waits, [ends("cancelled", 3)])).toEqual({ waiting: waits, dropped: [] });
});

test("what a turn that replaces a paused one queues again still waits", () => {
  const { waiting, dropped } = foldQueued(waits, [ends("paused", 7), queues("two", 8), queues("three", 9)]);
  expect(waiting).toEqual([
    { content: "two", seq: 8 },
    { content: "three", seq: 9 },
  ]);
  expect(dropped).toEqual([]);
});
