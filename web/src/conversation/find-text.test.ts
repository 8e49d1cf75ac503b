import { expect, test } from "vitest";
import { emptyTranscript, fold } from "../state/transcript";
import type { ServerMessage } from "../wire";
import { type Finder, finderOf, findHits, isOutputPartial } from "./find-text";
import type { Row } from "./rows";

function rowsOf(messages: object[]): Row[] {
  const all = messages.map((message, at) => ({ sessionId: "s", seq: at + 1, ...message }));
  const { items } = fold(emptyTranscript, all as unknown as ServerMessage[]);
  return items.map((item) => ({ kind: "item", id: item.id, item }));
}

const turn = { type: "state", event: "turn_started", state: "thinking", turn: 1, iteration: 0, queued: 0 };
const call = { toolCallId: "c", name: "bash", arguments: { command: "df -h", reason: "Look at the disk." } };
const rows = rowsOf([
  { type: "user.message", content: "Is the disk full?" },
  turn,
  { type: "tool.call", ...call, origin: "model" },
  { type: "tool.finished", ...call, status: "ok", output: "disk  90 %\nDisk 2\n[exit code 0]", exitCode: 0 },
  {
    type: "assistant.message",
    content: "The **disk** is\n`almost` full.\n\n| a | disk |\n| - | - |\n| 1 | 2 |",
  },
]);

function found(words: string, ofList = false): string[] {
  const finder = finderOf(words);
  if (!finder) return [];
  return findHits(rows, finder, ofList, "lab").all.map(({ row, part, nth }) => `${row} ${part} ${nth}`);
}

test("text is found in prompts, reasons, outputs and answers, whatever its case", () => {
  expect(found("DISK")).toEqual([
    "prompt-1 text 0",
    "step-c reason 0",
    "step-c output 0",
    "step-c output 1",
    "answer-1.0 text 0",
    "answer-1.0 text 1",
  ]);
  expect(found("df -h")).toEqual(["step-c command 0"]);
});

test("the marks of Markdown and what only the model reads are not text", () => {
  expect(found("the disk is almost full.")).toEqual(["answer-1.0 text 0"]);
  for (const words of ["**", "exit code", "|", "(", " "]) expect(found(words)).toEqual([]);
});

test("notices and ends are found by what their rows show", () => {
  const told = rowsOf([turn, { type: "guard.armed", toolCallId: "c", host: "local", seconds: 9 }]);
  const usage = { inputTokens: 1, outputTokens: 1, cachedTokens: 0 };
  const end = {
    kind: "end",
    id: "end-1",
    reason: "end_turn",
    error: undefined,
    usage,
    iterations: 1,
  } as const;
  told.push({ kind: "item", id: end.id, item: { ...end, missed: "web2" } });
  const kinds = (words: string) => {
    const finder = finderOf(words);
    const { all } = findHits(told, finder as Finder, false, "lab");
    return all.map(({ row }) => row.split("-")[0]);
  };
  expect(kinds("armed on lab")).toEqual(["notice"]);
  expect(kinds("on local")).toEqual([]);
  expect(kinds("not done on web2")).toEqual(["end"]);
});

test("an output is partial if it was truncated, or has begun before what is shown of it", () => {
  const finished = { type: "tool.finished", ...call, status: "ok", output: "a\n" };
  const isPartial = (...messages: object[]) =>
    rowsOf([turn, { type: "tool.call", ...call, origin: "model" }, ...messages]).some(isOutputPartial);
  expect(isPartial(finished)).toBe(false);
  expect(isPartial({ ...finished, truncated: true })).toBe(true);
  const omitted = "a\n… [1,200 lines, 9,000 bytes omitted; see the artifact]\nz";
  const job = { jobId: 1, command: "make", host: "web1" };
  expect(
    isPartial({ ...job, type: "job.started", toolCallId: "c" }, finished, {
      ...job,
      type: "job.finished",
      status: "ok",
      output: { text: omitted },
    }),
  ).toBe(true);
});

test("the words of a search in all sessions are found together, or else each in items that have them all", () => {
  expect(found("full disk")).toEqual([]);
  expect(found("full disk", true)).toEqual([
    "prompt-1 text 0",
    "prompt-1 text 1",
    "answer-1.0 text 0",
    "answer-1.0 text 1",
    "answer-1.0 text 2",
  ]);
  expect(found("disk full", true)).toEqual(["prompt-1 text 0"]);
});
