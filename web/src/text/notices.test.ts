import { describe, expect, test } from "vitest";
import { emptyTranscript, fold } from "../state/transcript";
import type { ServerMessage, TodoItem } from "../wire";
import { type NoticeLine, noticeText, taskNotice } from "./notices";

const sessionId = "s";

/** Returns the only line for a message. */
function line(message: object): NoticeLine {
  const { items } = fold(emptyTranscript, [{ sessionId, seq: 5, ...message } as ServerMessage]);
  expect(items).toHaveLength(1);
  const [item] = items;
  if (item?.kind !== "notice") throw new Error("it is no notice");
  expect(item.id).toBe("notice-5");
  const { kind: _, id: __, ...line } = item;
  return line;
}

describe("a message without an item of its own is one line", () => {
  test("context.compacted", () => {
    const message = { type: "context.compacted", before: 41_200, after: 2_100, keptMessages: 4 };
    expect(line({ ...message, elided: ["a", "b"] }).text).toBe(
      "context compacted: 2 outputs, 41 k → 2100 tokens; details in the log",
    );
    expect(line({ ...message, elided: ["a"] }).text).toContain("compacted: 1 output, 41 k");
    expect(line({ ...message, elided: ["a"], replacedMessages: 41 }).text).toContain(
      "compacted: 41 messages, 41 k",
    );
    expect(line({ ...message, elided: [] }).text).toBe(
      "context compacted: 41 k → 2100 tokens; details in the log",
    );
  });

  test("instructions", () => {
    const file = (path: string, sent: number, bytes: number) => ({ path, source: "workspace", sent, bytes });
    const files = [file("/a/AGENTS.md", 9, 9), file("/a/b/AGENTS.md", 1, 2_090)];
    const read = "instructions: /a/AGENTS.md (9 bytes), /a/b/AGENTS.md (2.0 kB, truncated to 1 byte)";
    expect(line({ type: "instructions", files })).toEqual({ text: read, weight: "note" });
    const untrusted = [{ path: "/c/CLAUDE.md", bytes: 3_400_000 }];
    const withheld =
      "not sent to the model, because this workspace is not trusted (see /trust): /c/CLAUDE.md (3.4 MB)";
    expect(line({ type: "instructions", files: [], untrusted })).toEqual({
      text: withheld,
      weight: "warning",
    });
    expect(line({ type: "instructions", files, untrusted }).text).toBe(`${read}; ${withheld}`);
    expect(line({ type: "instructions", files: [] }).text).toMatch(/no longer sent/);
    const skill = { name: "certs", kind: "skill", source: "user", path: "/s/certs/SKILL.md", listed: true };
    const command = { ...skill, name: "check", kind: "command" };
    const skipped = ["/s/x/SKILL.md: no `description`"];
    expect(line({ type: "instructions", files: [], skills: [skill, command], skipped })).toEqual({
      text: "skills: /certs; commands: /check; skipped /s/x/SKILL.md: no `description`",
      weight: "note",
    });
  });

  test("an expanded prompt", () => {
    expect(line({ type: "prompt.expanded", text: "é" }).text).toBe("prompt expanded (2 bytes)");
    expect(line({ type: "prompt.expanded", text: "x", commands: ["ls"] }).text).toBe(
      "prompt expanded (1 byte, runs 1 command first)",
    );
  });

  test("the first task list", () => {
    const items = [{ text: "look", state: "active" }];
    expect(line({ type: "todo", items }).text).toBe("tasks planned: 1");
    expect(line({ type: "todo", items: [] }).text).toBe("task list cleared");
  });

  test("job.finished", () => {
    const message = { type: "job.finished", jobId: 3, command: "make", host: "web1" };
    expect(line({ ...message, status: "failed", exitCode: 2 }).text).toBe("job 3 ended: failed, exit code 2");
    expect(line({ ...message, status: "cancelled" }).text).toBe("job 3 ended: canceled");
    expect(line({ ...message, status: "unknown" })).toEqual({
      text: "job 3: outcome unknown",
      weight: "warning",
    });
  });

  test("guard.armed and guard.ended", () => {
    const guard = { toolCallId: "c", host: "web1" };
    expect(line({ type: "guard.armed", ...guard, seconds: 120 }).text).toBe(
      "guard armed on web1: rolls back in 120 s unless confirmed",
    );
    expect(line({ type: "guard.ended", ...guard, how: "confirmed" }).weight).toBe("note");
    expect(line({ type: "guard.ended", ...guard, how: "fired" }).weight).toBe("warning");
    expect(line({ type: "guard.ended", ...guard, how: "unknown" }).text).toContain("check the host");
  });

  test("the host of a guard has the name that it has elsewhere", () => {
    const named = (message: object) =>
      noticeText(line({ toolCallId: "c", host: "local", ...message }), "lab");
    expect(named({ type: "guard.armed", seconds: 9 })).toMatch(/^guard armed on lab: /);
    expect(named({ type: "guard.ended", how: "fired" })).toMatch(/^guard on lab fired/);
    expect(named({ type: "prompt.expanded", text: "x on local" })).toMatch(/^prompt expanded/);
  });

  test("approval.given", () => {
    const given = { type: "approval.given", toolCallId: "c", by: "ada" };
    expect(line({ ...given, needed: 2 })).toEqual({
      text: "allowed it; another person must allow it, too",
      weight: "note",
      by: "ada",
    });
    expect(line({ ...given, needed: 3 }).text).toBe("allowed it; 3 different people must allow it in all");
  });

  test("undone", () => {
    const message = { type: "undone", toolCallId: "c", step: 3, by: "ada" };
    expect(line({ ...message, how: "exact" })).toEqual({ text: "undid call 3", weight: "note", by: "ada" });
    expect(line({ ...message, how: "partly" }).weight).toBe("warning");
    expect(line({ ...message, how: "none" }).text).toBe("could not undo call 3");
    expect(line({ ...message, step: undefined, how: "exact" }).text).toBe("undid an earlier call");
  });

  test("control characters are escaped", () => {
    const text = line({ type: "guard.armed", toolCallId: "c", host: "\u001b[2Jweb\u202e1", seconds: 1 }).text;
    expect(text).not.toMatch(/[\u001b\u202e]/);
  });
});

test("a change of the task list is one line: what was done, or what began, or how far it is", () => {
  const list = (...states: TodoItem["state"][]) => states.map((state, at) => ({ text: `t${at}`, state }));
  const said = (before: TodoItem[], after: TodoItem[]) => taskNotice(before, after).text;
  const begun = list("active", "pending", "pending");
  expect(said(begun, list("done", "active", "pending"))).toBe("task done: t0");
  expect(said(begun, list("done", "done", "pending"))).toBe("tasks done: t0; t1");
  expect(said(begun, list("pending", "active", "pending"))).toBe("task started: t1");
  expect(said(begun, list("active"))).toBe("tasks changed: 0/1 done");
});
