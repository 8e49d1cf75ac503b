import { expect, test } from "vitest";
import { completions, parseCommand } from "./commands";

const usage = { inputTokens: 12_000, outputTokens: 900, cachedTokens: 3_000 };

test("commands are recognized by their whole name", () => {
  expect(parseCommand("/compact", usage, [])).toEqual({ kind: "compact", focus: "" });
  expect(parseCommand("/compact the\nports ", usage, [])).toEqual({ kind: "compact", focus: "the\nports" });
  expect(parseCommand("/auto", usage, [])).toEqual({ kind: "auto", bounds: "" });
  expect(parseCommand("/auto 20 commands, 30m", usage, [])).toEqual({
    kind: "auto",
    bounds: "20 commands, 30m",
  });
  expect(parseCommand("/effort high", usage, [])).toEqual({ kind: "effort", level: "high" });
  for (const text of [
    "/init",
    "effort high",
    "/usr/bin/env",
    "/etc/passwd is what?",
    "// a comment",
    "/2x",
  ]) {
    expect(parseCommand(text, usage, [])).toBeUndefined();
  }
});

test("a slash and letters are a command, known or not, unless a skill has the name", () => {
  for (const text of ["/nonsense", "/compacted is no prompt", "/Help", "/etc", "/deploy web1"]) {
    expect(parseCommand(text, usage, [])).toEqual({ kind: "unknown", word: text.split(" ")[0] });
  }
  const skill = { name: "deploy", kind: "skill" as const, source: "user" as const, path: "p", listed: true };
  expect(parseCommand("/deploy web1", usage, [skill])).toBeUndefined();
  for (const text of ["/help", "/", "/help me"]) {
    const command = parseCommand(text, usage, []);
    expect(command?.kind === "tell" && command.text).toContain("/compact [FOCUS]: Summarize older messages");
  }
});

test("a command that the page cannot carry out says so", () => {
  const told = (text: string) => {
    const command = parseCommand(text, usage, []);
    return command?.kind === "tell" ? command.text : "";
  };
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
  expect(names("/c")).toEqual(["/compact", "/cost", "/check-disk"]);
  expect(names("/check")).toEqual(["/check-disk"]);
  expect(names("/")).toHaveLength(8);
  for (const text of ["", "c", "/x", "/compact ", "/compact the", "a /c"]) expect(names(text)).toEqual([]);
});
