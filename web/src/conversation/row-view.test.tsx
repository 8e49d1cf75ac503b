import { renderToString } from "preact-render-to-string";
import { expect, test } from "vitest";
import { MeContext } from "../app/me";
import type { Item } from "../state/item";
import { emptyTranscript, fold } from "../state/transcript";
import type { ServerMessage } from "../wire";
import { Online } from "./online";
import { RowView } from "./RowView";

const nothing = () => undefined;
const owner = { name: "laptop", operate: true, decide: true };
const guest = { name: "laptop", operate: false, decide: false };

/** Returns the text of the row of the last item, or of an earlier one. */
function shown(messages: object[], { me = owner, online = true, at = -1 } = {}): string {
  const all = messages.map((message, seq) => ({ sessionId: "s", seq: seq + 1, ...message }));
  const { items } = fold(emptyTranscript, all as unknown as ServerMessage[]);
  const item = items.at(at) as Item;
  const html = renderToString(
    <MeContext value={me}>
      <Online value={online}>
        <RowView row={{ kind: "item", id: item.id, item }} session="s" showAll={nothing} undo={nothing} />
      </Online>
    </MeContext>,
  );
  return html
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ")
    .trim();
}

const call = { toolCallId: "c", name: "bash", arguments: { command: "rm x" } };
const asked = { type: "approval.request", ...call, command: "rm x", reason: "", risk: "changes" };
const runs = { type: "tool.call", ...call, origin: "model" };
const ends = { type: "tool.finished", toolCallId: "c", name: "bash", status: "ok", exitCode: 0, output: "" };

test("a rejection is told once, with the name of who rejected it, and a guest did nothing", () => {
  const closed = { type: "approval.closed", toolCallId: "c", decision: "reject", by: "laptop", reason: "no" };
  const output = "the user rejected this call; nothing ran. Reason: no";
  const rejected = [asked, closed, { ...ends, status: "rejected", exitCode: undefined, output }];
  expect(shown(rejected)).toContain("rejected by you: no");
  expect(shown(rejected)).not.toContain("the user rejected");
  expect(shown(rejected, { me: guest })).toContain("rejected by laptop: no");
});

test("a notice about the viewer says you", () => {
  const typed = { type: "terminal.typed", by: "laptop", typed: { activity: { keys: 2, seconds: 1 } } };
  expect(shown([typed])).toBe("You used the terminal: 2 keys in 1 s");
  expect(shown([typed], { me: { ...owner, name: "bob" } })).toBe("laptop used the terminal: 2 keys in 1 s");
  const pasted = { ...typed, typed: { activity: { keys: 31, seconds: 0 } } };
  expect(shown([pasted])).toBe("You used the terminal: 31 keys");
});

test("without a connection, a call was running when it was last seen", () => {
  expect(shown([runs])).toMatch(/ running$/);
  expect(shown([runs], { online: false })).toMatch(/ last known: running$/);
});

test("a command that goes on in the background is running, not ok", () => {
  const started = { type: "job.started", jobId: 1, toolCallId: "c", command: "rm x", host: "web1" };
  const output = "up\n[still running in the background as job 1; see `jobs`]";
  expect(shown([runs, started, { ...ends, output }], { at: 0 })).toMatch(/ up ↻ running as job 1$/);
  expect(shown([runs, started, ends], { at: 0 })).not.toContain("ok");
});

test("output that was printed before the page was opened is announced", () => {
  const hello = { type: "session.created", seq: undefined, lastSeq: 9, tools: [], model: "m", host: "web1" };
  const more = { type: "tool.output", seq: undefined, toolCallId: "c", content: "line 9\n" };
  expect(shown([hello, runs, more])).toContain("… Earlier output appears when the command ends. line 9");
});

test("long output is cut at a line, and the lines before it are counted", () => {
  const lines = Array.from({ length: 900 }, (_, at) => `${String(at + 1).padEnd(40, ".")}\n`);
  const text = shown([runs, { ...ends, output: lines.join("") }]);
  const hidden = Number(/ (\d+) earlier lines not shown/.exec(text)?.[1]);
  expect(hidden).toBeGreaterThan(0);
  expect(text).toContain(` ${`${hidden + 1}`.padEnd(40, ".")}`);
  expect(text).not.toContain(`${`${hidden}`.padEnd(40, ".")}`);
  expect(text).toContain("Show all 900 lines");
});

test("the advice of a refusal to the model is not shown", () => {
  const refusal =
    "denied: this session is read-only (approve = never); nothing ran. The call was recorded as a step of your plan: keep on";
  const text = shown([runs, { ...ends, status: "rejected", output: refusal }]);
  expect(text).toContain("nothing ran");
  expect(text).not.toContain("your plan");
});

test("an undone call says so, and has no button to undo it", () => {
  const changed = { changed: [{ kind: "file", name: "x", how: "removed" }], undo: "exact" };
  const undone = { type: "undone", toolCallId: "c", step: 1, by: "laptop", how: "exact" };
  expect(shown([runs, { ...ends, ...changed }])).toMatch(/undo: exact Undo$/);
  expect(shown([runs, { ...ends, ...changed }], { me: guest })).toMatch(/undo: exact$/);
  expect(shown([runs, { ...ends, ...changed }, undone], { at: 0 })).toMatch(/changed: x removed ↩ undone$/);
});

test("a rejected call says that it did not run, and an unknown time is not told", () => {
  const closed = { type: "approval.closed", toolCallId: "c", decision: "reject", by: "laptop", reason: "" };
  const rejected = [asked, closed, { ...ends, status: "rejected", exitCode: undefined }];
  expect(shown(rejected)).toMatch(/^⊘ rm x .*⊘ not run rejected by you$/);
  expect(shown([runs, { ...ends, durationMs: 0 }])).not.toContain("ms");
  expect(shown([runs, { ...ends, durationMs: 8 }])).toContain("8 ms");
});

test("a call that was canceled before it ran has the sign of one that did not run", () => {
  const canceled = { ...ends, status: "cancelled", exitCode: undefined };
  expect(shown([asked, canceled])).toMatch(/^⊘ rm x/);
  expect(shown([runs, canceled])).toMatch(/^> rm x/);
});

test("long commands and long output begin with a part", () => {
  const lines = (count: number) => Array.from({ length: count }, (_, at) => `line${at}.`).join("\n");
  const long = { ...runs, arguments: { command: lines(11) } };
  expect(shown([long])).toMatch(/line9\. Show all 11 lines/);
  expect(shown([long])).not.toContain("line10.");
  expect(shown([{ ...runs, arguments: { command: lines(10) } }])).not.toContain("Show all");
  expect(shown([runs, { ...ends, output: lines(15) }])).toMatch(/line14\. Show all 15 lines/);
  expect(shown([runs, { ...ends, output: lines(14) }])).not.toContain("Show all");
  const cut = `${lines(8)}\n… [2,500 lines, 9 bytes omitted; all of it is in c] …\n${lines(8)}`;
  expect(shown([runs, { ...ends, output: cut, truncated: true }])).toMatch(/Show 16 of 2516 lines/);
  expect(shown([runs, { ...ends, output: lines(15), truncated: true }])).toMatch(/Show 15 lines/);
});

test("output of several hosts has its first header, however long it is", () => {
  const host = (name: string, group: number) => ({ host: name, status: "ok", group, duration_ms: 0 });
  const output = `── web1 ──\n${"text\n".repeat(10_000)}`;
  const ended = shown([runs, { ...ends, output, hosts: [host("web1", 0), host("web2", 1)] }]);
  expect(ended).toContain("── web1 ──");
  expect(ended).toContain("✓ 2 hosts");
  expect(ended).not.toContain("0 ms");
});

test("notes for the model about typing are not shown as output", () => {
  const note = "[ann typed into the terminal for 3 s; the output is private unless they share it]";
  expect(shown([runs, { ...ends, output: `${note}\nmine` }])).toContain("rm x Copy mine");
});

test("the end of a paused turn is not an error", () => {
  const metadata = { stopReason: "paused", usage: {}, iterations: 1, turn: 1 };
  expect(shown([{ type: "assistant.done", metadata }])).toBe(
    "stopped: a prompt or a command came while the turn was paused",
  );
});
