import { expect, test } from "vitest";
import type { Skill } from "../wire";
import { completions, parseCommand } from "./commands";
import { emptyTranscript } from "./transcript";

const idle = { ...emptyTranscript, usage: { inputTokens: 12_000, outputTokens: 900, cachedTokens: 3_000 } };

function parse(text: string, { transcript = idle, skills = [] as Skill[] } = {}) {
  return parseCommand(text, transcript, skills);
}

function told(text: string, transcript = idle): string {
  const command = parse(text, { transcript });
  return command?.kind === "tell" ? command.text : "";
}

test("commands are recognized by their whole name", () => {
  const messageOf = (text: string) => {
    const command = parse(text);
    return command?.kind === "send" ? command.message : command;
  };
  expect(messageOf("/compact")).toEqual({ type: "compact" });
  expect(messageOf("/compact the\nports ")).toEqual({ type: "compact", focus: "the\nports" });
  expect(messageOf("/auto")).toEqual({ type: "configure", approve: "auto" });
  expect(messageOf("/auto 20 commands, 30m")).toEqual({
    type: "configure",
    approve: "auto",
    bounds: "20 commands, 30m",
  });
  expect(messageOf("/effort high")).toEqual({ type: "configure", effort: "high" });
  for (const text of [
    "/init",
    "effort high",
    "/usr/bin/env",
    "/etc/passwd is what?",
    "// a comment",
    "/2x",
  ]) {
    expect(parse(text)).toBeUndefined();
  }
});

test("a slash and letters are a command, known or not, unless a skill has the name", () => {
  for (const text of ["/nonsense", "/compacted is no prompt", "/Help", "/etc", "/deploy web1", "/toString"]) {
    expect(parse(text)).toEqual({ kind: "unknown", word: text.split(" ")[0] });
  }
  const skill: Skill = { name: "deploy", kind: "skill", source: "user", path: "p", listed: true };
  expect(parse("/deploy web1", { skills: [skill] })).toBeUndefined();
  for (const name of ["run", "plan", "export"]) {
    expect(parse(`/${name} x`, { skills: [{ ...skill, name }] })).toBeUndefined();
  }
  expect(parse("/trust", { skills: [{ ...skill, name: "trust" }] })?.kind).toBe("tell");
  for (const text of ["/help", "/", "/help me"]) {
    expect(told(text)).toContain("/compact [FOCUS]: Summarize older messages");
  }
});

test("the commands of the other front ends work on the page, or it says where the same is done", () => {
  expect(parse("/new")).toEqual({ kind: "ask", request: "connect" });
  expect(parse("/host web1")).toEqual({ kind: "ask", request: "connect" });
  expect(parse("/permissions")).toEqual({ kind: "ask", request: "grants" });
  expect(parse("/find the disk")).toEqual({ kind: "find", words: "the disk" });
  expect(parse("/clear")).toEqual({ kind: "act", act: "newChat" });
  expect(parse("/mode chat")).toMatchObject({ message: { type: "configure", mode: "chat" } });
  expect(parse("/model m/n")).toMatchObject({ message: { type: "configure", model: "m/n" } });
  expect(parse("/jobs read 2")).toEqual({ kind: "read", jobId: 2 });
  expect(parse("/jobs stop 2")).toMatchObject({ message: { type: "job.stop", jobId: 2 } });
  expect(told("/stop")).toBe("No turn is running.");
  expect(parse("/stop", { transcript: { ...idle, phase: "running" } })).toEqual({ kind: "act", act: "stop" });
  const undo = { type: "direct", tool: "undo", origin: "typed" };
  expect(parse("/undo")).toMatchObject({ kind: "call", message: { ...undo, arguments: {} } });
  expect(parse("/undo 3")).toMatchObject({ kind: "call", message: { ...undo, arguments: { step: 3 } } });
  expect(told("/undo that")).toBe("Type /undo, or /undo and the number of a call.");
  for (const name of [
    "exit",
    "export",
    "fork",
    "keys",
    "mcp",
    "output",
    "plan",
    "routines",
    "run",
    "status",
  ]) {
    expect(told(`/${name}`)).not.toBe("");
  }
  const jobs = [{ jobId: 2, command: "sleep 9", host: "web1" }];
  expect(told("/jobs", { ...idle, jobs })).toBe("job 2 on web1: sleep 9");
});

test("a command that the page cannot carry out says so", () => {
  expect(told("/effort much")).toBe("Type /effort and one of none, minimal, low, medium, high, xhigh.");
  expect(told("/effort")).toContain("one of none");
  expect(told("/trust")).toContain("start the server with --trust");
  expect(told("/cost")).toMatch(/^12 k tokens in \(3000 cached\), 900 out so far; /);
});

test("the beginning of a name is completed to commands and skills", () => {
  const skill = { kind: "skill" as const, source: "user" as const, path: "p", listed: true };
  const skills = [
    { ...skill, name: "check-disk", description: "Look at disks", arguments: "HOST" },
    { ...skill, name: "cost" },
  ];
  const names = (text: string) => completions(text, skills).map(({ name }) => name);
  expect(names("/co")).toEqual(["/compact", "/cost"]);
  expect(names("/check")).toEqual(["/check-disk"]);
  expect(names("/")).toHaveLength(8);
  for (const text of ["", "c", "/x", "/compact ", "/compact the", "a /c"]) expect(names(text)).toEqual([]);
});
