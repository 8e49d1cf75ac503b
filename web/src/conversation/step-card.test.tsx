// @vitest-environment happy-dom
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Step } from "../state/item";
import { emptyTranscript, fold } from "../state/transcript";
import type { ServerMessage } from "../wire";
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
