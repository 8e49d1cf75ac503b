// @vitest-environment happy-dom
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Step } from "../state/item";
import { emptyTranscript, fold } from "../state/transcript";
import type { ServerMessage } from "../wire";
import { Found } from "./found";
import { StepCard } from "./StepCard";

let root: Root;

beforeEach(() => {
  root = createRoot(document.body.appendChild(document.createElement("div")));
});
afterEach(() => {
  root.unmount();
  document.body.replaceChildren();
});

test("all of a long command and of its output can be shown and folded again", async () => {
  const lines = (count: number) =>
    Array.from({ length: count }, (_, at) => `${at}.`.padEnd(40, "x")).join("\n");
  const call = { sessionId: "s", toolCallId: "c", name: "bash" };
  const messages = [
    { ...call, seq: 1, type: "tool.call", arguments: { command: lines(12) }, origin: "model" },
    { ...call, seq: 2, type: "tool.finished", status: "ok", exitCode: 0, output: lines(900) },
  ];
  const { items } = fold(emptyTranscript, messages as unknown as ServerMessage[]);
  root.render(<StepCard step={items[0] as Step} session="s" undo={() => undefined} />);
  const names = () => [...document.querySelectorAll(".more")].map(({ textContent }) => textContent);
  const click = (at: number) => document.querySelectorAll<HTMLButtonElement>(".more")[at]?.click();
  const folded = ["Show all 12 lines", "Show all 900 lines"];
  await vi.waitUntil(() => names().length === 2);
  expect(names()).toEqual(folded);
  for (const at of [0, 1]) click(at);
  await vi.waitUntil(() => names().every((name) => name === "Show less"));
  const shown = (part: string) => document.querySelector(part)?.textContent ?? "";
  expect(shown(".what")).toContain("11.");
  expect(shown(".output")).toMatch(/^0\.x+\n1\./);
  for (const at of [0, 1]) click(at);
  await vi.waitUntil(() => names().every((name) => name !== "Show less"));
  expect(names()).toEqual(folded);
});

test("the search unfolds only an output that is folded, until it shows another hit", async () => {
  const card = (lines: number) => {
    const call = { sessionId: "s", toolCallId: "c", name: "bash" };
    const output = Array.from({ length: lines }, (_, at) => `${at}.`).join("\n");
    const messages = [
      { ...call, seq: 1, type: "tool.call", arguments: { command: "seq" }, origin: "model" },
      { ...call, seq: 2, type: "tool.finished", status: "ok", exitCode: 0, output },
    ];
    const { items } = fold(emptyTranscript, messages as unknown as ServerMessage[]);
    return <StepCard step={items[0] as Step} session="s" undo={() => undefined} />;
  };
  const hit = { row: "step-c", part: "output" as const };
  const search = (found: typeof hit | "none" | undefined, lines = 20) =>
    root.render(<Found value={found}>{card(lines)}</Found>);
  const name = () => document.querySelector(".more")?.textContent;
  search(hit, 2);
  await vi.waitUntil(() => document.querySelector(".output"));
  expect([name(), document.querySelector(".whole")]).toEqual([undefined, null]);
  search(hit);
  await vi.waitUntil(() => name() === "Show less");
  search(undefined);
  search("none");
  await vi.waitUntil(() => name() === "Show all 20 lines");
  search(hit);
  await vi.waitUntil(() => name() === "Show less");
  search({ ...hit, row: "step-d" });
  await vi.waitUntil(() => name() === "Show all 20 lines");
  document.querySelector<HTMLButtonElement>(".more")?.click();
  await vi.waitUntil(() => name() === "Show less");
  search(hit);
  search("none", 21);
  await vi.waitUntil(() => document.querySelector(".output")?.textContent?.includes("20."));
  expect(name()).toBe("Show less");
});

test("the output that a search unfolded stays so when the search is closed", async () => {
  const call = { sessionId: "s", toolCallId: "c", name: "bash" };
  const messages = [
    { ...call, seq: 1, type: "tool.call", arguments: { command: "seq" }, origin: "model" },
    { ...call, seq: 2, type: "tool.finished", status: "ok", output: "x\n".repeat(20) },
  ];
  const { items } = fold(emptyTranscript, messages as unknown as ServerMessage[]);
  const search = (found: { row: string; part: "output" } | undefined, isKnown = true) =>
    root.render(
      <Found value={found}>
        <StepCard
          step={{ ...(items[0] as Step), reason: isKnown ? "a" : "b" }}
          session="s"
          undo={() => undefined}
        />
      </Found>,
    );
  search({ row: "step-c", part: "output" });
  await vi.waitUntil(() => document.querySelector(".whole"));
  search(undefined, false);
  await vi.waitUntil(() => document.querySelector(".why")?.textContent === "b");
  expect(document.querySelector(".whole")).not.toBeNull();
});

test("a finished undo says what was put back, without the word for the model", async () => {
  const call = { sessionId: "s", toolCallId: "c", name: "undo" };
  const messages = [
    { ...call, seq: 1, type: "tool.call", arguments: { step: 1 }, origin: "typed" },
    { ...call, seq: 2, type: "tool.finished", status: "ok", output: "OK, removed 1 file: a" },
  ];
  const { items } = fold(emptyTranscript, messages as unknown as ServerMessage[]);
  root.render(<StepCard step={items[0] as Step} session="s" undo={() => undefined} />);
  await vi.waitUntil(() => document.querySelector(".output"));
  expect(document.querySelector(".output")?.textContent).toBe("removed 1 file: a");
});

test("the output of a background job is on the card of its command once it ended", async () => {
  const call = { sessionId: "s", toolCallId: "c", name: "bash" };
  const output = { text: "made\n[exit code 2]", artifact: "a1" };
  const job = { sessionId: "s", jobId: 1, command: "make", host: "web1" };
  const messages = [
    { ...call, seq: 1, type: "tool.call", arguments: { command: "make" }, origin: "model" },
    { ...job, seq: 2, type: "job.started", toolCallId: "c" },
    { ...call, seq: 3, type: "tool.finished", status: "ok", output: "[still running as job 1]" },
    { ...job, seq: 4, type: "job.finished", status: "failed", exitCode: 2, output },
  ];
  const { items } = fold(emptyTranscript, messages as unknown as ServerMessage[]);
  root.render(<StepCard step={items[0] as Step} session="s" undo={() => undefined} />);
  await vi.waitUntil(() => document.querySelector(".output"));
  expect(document.querySelector(".output")?.textContent).toBe("made");
  expect(document.querySelector("a")?.getAttribute("href")).toContain("a1");
});

test("an error of one line wraps in every window, and columns do not", async () => {
  const call = { sessionId: "s", toolCallId: "c", name: "bash" };
  const begin = { ...call, seq: 1, type: "tool.call", origin: "model" };
  const shown = async (output: string, tool = "bash", status = "failed") => {
    const messages = [
      { ...begin, name: tool, arguments: tool === "bash" ? { command: "df" } : { text: "x" } },
      { ...call, name: tool, seq: 2, type: "tool.finished", status, output },
    ];
    const { items } = fold(emptyTranscript, messages as unknown as ServerMessage[]);
    root.render(<StepCard step={items[0] as Step} session="s" undo={() => undefined} />);
    await vi.waitUntil(() => document.querySelector(".output")?.textContent === output);
    return document.querySelector(".output")?.classList.contains("wraps");
  };
  expect(await shown("bash: df: command not found")).toBe(true);
  expect(await shown("a  b  c", "bash", "ok")).toBe(false);
  expect(await shown("Filesystem  Size\n/dev/sda1    9G")).toBe(false);
  expect(await shown("no match\nfor the text", "search")).toBe(true);
  expect(await shown("old\nnew", "search", "ok")).toBe(false);
});

test("a program that waits for input is not called a lost outcome", async () => {
  const call = { sessionId: "s", toolCallId: "c", name: "run_command" };
  const note = "[the command is still running and seems to wait for an answer; answer with send_keys]";
  const messages = [
    { ...call, seq: 1, type: "tool.call", arguments: { command: "apt install x" }, origin: "model" },
    { ...call, seq: 2, type: "tool.finished", status: "unknown", output: `Continue?\n${note}` },
  ];
  const { items } = fold(emptyTranscript, messages as unknown as ServerMessage[]);
  root.render(<StepCard step={items[0] as Step} session="s" undo={() => undefined} />);
  await vi.waitUntil(() => document.querySelector(".output"));
  expect(document.querySelector(".badge")?.textContent).toBe("■ still running; it waits for input");
  expect(document.querySelector(".output")?.textContent).toBe("Continue?");
});

test("a finished overwrite shows the change of the file that was there", async () => {
  const call = { sessionId: "s", toolCallId: "c", name: "write_file" };
  const args = { path: "f", content: "one\ntwo\n" };
  const preview = ["overwrites f (8 bytes, 2 lines): +1 −1 lines", "@@ -2 +2 @@", " one", "-2", "+two"];
  const asked = { type: "approval.request", command: "", reason: "", risk: "changes", preview };
  const messages = [
    { ...call, ...asked, seq: 1, arguments: args },
    { ...call, seq: 2, type: "approval.closed", decision: "allow", by: "laptop" },
    { ...call, seq: 3, type: "tool.call", arguments: args, origin: "model" },
    { ...call, seq: 4, type: "tool.finished", status: "ok", output: "written" },
  ];
  const { items } = fold(emptyTranscript, messages as unknown as ServerMessage[]);
  root.render(<StepCard step={items[0] as Step} session="s" undo={() => undefined} />);
  await vi.waitUntil(() => document.querySelector(".diff"));
  expect(document.querySelector(".path")?.textContent).toBe("overwrites f +1 −1");
  expect(document.querySelector(".diff > pre")?.textContent).toBe("  one- 2+ two");
});

test("headings of hosts and reasons wrap beside the columns of an output", async () => {
  const call = { sessionId: "s", toolCallId: "c", name: "bash" };
  const [first, rest] = ["== a, b (2 hosts of 3): exit code 1 ==\n", "x  y\n"];
  const missed = "== c (1 host of 3): not run ==\nconnection refused\n";
  const hosts = ["a", "b", "c"].map((host) => ({ host, status: "failed" }));
  const messages = [
    { ...call, seq: 1, type: "tool.call", arguments: { command: "df" }, origin: "model" },
    {
      ...call,
      seq: 2,
      type: "tool.finished",
      status: "failed",
      output: `${first}${rest}${missed}`,
      hosts,
    },
  ];
  const { items } = fold(emptyTranscript, messages as unknown as ServerMessage[]);
  root.render(<StepCard step={items[0] as Step} session="s" undo={() => undefined} />);
  await vi.waitUntil(() => document.querySelector(".output"));
  const told = [...document.querySelectorAll(".output > .told")].map(({ textContent }) => textContent);
  expect(told).toEqual([first, missed.trimEnd()]);
  expect(document.querySelector(".output")?.textContent).toBe(`${first}${rest}${missed}`.trimEnd());
});
