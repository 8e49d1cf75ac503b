import { describe, expect, test } from "vitest";
import type { StepKind } from "../state/item";
import { changedLine } from "./changed-line";
import {
  approvalWords,
  boundsLabel,
  budgetLabel,
  type CodePhrase,
  callSummary,
  elapsed,
  expiryLabel,
  foldNames,
  hostLabel,
  jobLabel,
  plainExcerpt,
  progressLabel,
  shortHostLabel,
  shortTime,
  typedLabel,
  undoneHosts,
  undoneWhat,
} from "./labels";
import { coversShown } from "./session-scope";

test("a countdown is written as in the other front ends", () => {
  const times = [0, 1, 119_000, 119_001, 3_600_000, 3_601_000].map(shortTime);
  expect(times).toEqual(["0s", "1s", "119s", "2m", "1h", "1h1m"]);
  expect(boundsLabel({ commands: 1, until: 90_000, cost: 0.314, hosts: ["@lab"] }, 30_000)).toBe(
    "1 command, 60s, $0.31, @lab left",
  );
  expect(expiryLabel(1_000, 1_000)).toBe("Expired.");
  const expiry = [1_000, 600_000, 3_600_000, 5_400_000].map((left) => expiryLabel(left, 0));
  expect(expiry).toEqual(
    ["1 s", "10 min", "1 h", "1 h 30 min"].map((time) => `Expires in ${time}, then it is rejected.`),
  );
});

test("a budget names the limits that are set, as in the other front ends", () => {
  const budget = { session: { cost: 0.5, tokens: 200_000 }, turn: { minutes: 1 } };
  expect(budgetLabel(budget)).toBe("session $0.50, 200 k tokens; turn 1 minute");
});

test("a change of a file is applied, and a command is run", () => {
  const edit = { path: "a", old_string: "x", new_string: "y" };
  const words = (tool: string, args: object, cardKind: StepKind = "tool") =>
    approvalWords({ tool, arguments: args, cardKind }, "web1");
  expect(words("edit_file", edit)).toEqual({ question: "Apply this change", yes: "Apply" });
  expect(words("write_file", { path: "a", content: "" }).yes).toBe("Apply");
  expect(words("bash", { command: "ls" }, "command").yes).toBe("Run");
  expect(words("send_keys", { keys: "C-c" }, "send_keys")).toEqual({
    question: "Press these keys",
    yes: "Press keys",
  });
  expect(words("remember", { text: "It runs nginx." })).toEqual({
    question: "Save this note about web1",
    yes: "Save",
  });
  const undo = (args: object) => words("undo", args);
  expect(undo({ step: 1 })).toEqual({ question: "Undo call 1", yes: "Undo" });
  expect(undo({ step: 1, undoes: "rm -r x\nls" }).question).toBe("Undo rm -r x\\nls");
  expect(undo({ changes: [{ path: "a" }] }).question).toBe("Undo the file edits of the last turn: a");
  expect(undoneWhat({ undoes: "x".repeat(90) }).code).toBe(`${"x".repeat(80)}…`);
});

test("an undo is labeled with the hosts that it changes", () => {
  const of = (args: unknown) => undoneHosts(args, "web1, web2,db1");
  expect(of({ step: 1, records: [{ host: "web2", id: "r" }, { host: "other" }, null] })).toBe("web2");
  expect(of({ changes: [{ path: "db1:etc/a" }, { path: "web1:b" }, { path: "web2" }] })).toBe("web1,db1");
  for (const odd of [{ step: 1 }, {}, undefined, null, { records: 1 }])
    expect(of(odd)).toBe("web1, web2,db1");
});

test("the scope of a proposal repeats a short command, and means a long one that is shown", () => {
  const said = ({ before, code, after }: CodePhrase) => [before, code, after].filter(Boolean).join(" ");
  const scope = (command: string, shown = command) => said(coversShown({ exact: { command } }, shown));
  expect(coversShown({ exact: { command: "ls" } }, "ls")).toEqual({
    before: "exactly",
    code: "ls",
    after: "in this directory",
  });
  for (const long of ["x".repeat(81), "ls\nls"]) {
    expect(scope(long)).toBe("this exact command in this directory");
    expect(scope(long, "other")).toContain(long.slice(0, 2));
  }
  expect(said(coversShown({ program: { program: "touch", subcommand: null } }, "touch x"))).toBe(
    "any simple touch … that stays below this directory",
  );
  expect(said(coversShown({ program: { program: "systemctl", subcommand: "start" } }, "x"))).toBe(
    "any simple systemctl start … run in this directory",
  );
  expect(said(coversShown({ tool: { name: "edit_file" } }, "x".repeat(99)))).toContain(
    "any call of edit_file",
  );
});

test("a call of a file tool is named by its path", () => {
  expect(callSummary("edit_file", { path: "app/nginx.conf", old_string: "a" })).toBe("Edit app/nginx.conf");
  expect(callSummary("write_file", { path: "a\nb" })).toBe("Write a\\nb");
  expect(callSummary("edit_file", { path: 1 })).toBe("edit_file(1)");
});

test("a call of another tool is named by its command or by all of its arguments, in any order", () => {
  expect(callSummary("deploy", { path: "a", reason: "r", dry: true })).toBe('deploy(path="a", dry=true)');
  expect(callSummary("deploy", { reason: "r", to: "b" })).toBe('deploy("b")');
  expect(callSummary("deploy", { quiet: true, command: "make" })).toBe('deploy("make", ...)');
  expect(callSummary("deploy", { to: "x".repeat(99) })).toContain("x…");
});

test("input into the terminal is a phrase that follows a name", () => {
  expect(typedLabel({ activity: { keys: 1, seconds: 2 } })).toBe("used the terminal: 1 key in 2 s");
  expect(typedLabel({ secret: { prompt: "Password: " } })).toBe("entered a password for “Password:”");
  expect(typedLabel({ answer: { prompt: "ok?", text: "yes" } })).toBe("answered “ok?”: yes");
});

test("an undo names its files, as in the core", () => {
  const undo = (args: unknown) => callSummary("undo", args);
  const files = (...paths: string[]) => paths.map((path) => ({ path }));
  const two = files("etc/a.conf", "b\n.txt", "etc/a.conf");
  expect(undo({ changes: two })).toBe("undo the file edits of the last turn: etc/a.conf, b\\n.txt");
  expect(undo({ step: 3, changes: files("a", "b", "c", "d", "e") })).toBe("undo call 3: a, b, c and 2 more");
  expect(undo({ step: 2, records: [] })).toBe("undo call 2");
  for (const odd of [null, undefined, {}, { changes: "a" }, { changes: [null, { path: 1 }] }]) {
    expect(undo(odd)).toBe("undo the file edits of the last turn");
  }
});

test("the server's machine is named, because the page may be on another", () => {
  expect(hostLabel("local")).toBe("the server");
  expect(hostLabel("local", "")).toBe("the server");
  expect(
    ["local", "local,web1", "me@web1", "ssh://me@web1:2222"].map((host) => hostLabel(host, "lab")),
  ).toEqual(["lab", "2 hosts: lab, web1", "web1 as me", "web1:2222 as me"]);
  expect(["local", "local,web1", "me@web1"].map((host) => shortHostLabel(host, "lab"))).toEqual([
    "lab",
    "2 hosts",
    "web1 as me",
  ]);
});

test("the time of a running command is written in whole seconds", () => {
  expect([-5, 999, 12_900, 59_999, 65_500].map(elapsed)).toEqual(["0 s", "0 s", "12 s", "59 s", "1 min 5 s"]);
});

describe("the line about changes", () => {
  const file = (name: string, how = "edited") => ({ kind: "file" as const, name, how });

  test("counts files and lists the other changes", () => {
    expect(changedLine([], "exact")).toBe("");
    expect(changedLine([file("/etc/motd")], "exact")).toBe("changed: /etc/motd edited; undo: exact");
    const unit = { kind: "unit" as const, name: "nginx", how: "restarted" };
    const all = [file("/etc/a"), file("1003 more files", "changed"), unit];
    expect(changedLine(all, undefined)).toBe("changed: 1004 files, unit nginx restarted");
  });

  test("names the same change on several hosts once", () => {
    const hosts = ["web1", "db1"].map((host) => ({ host, status: "ok" as const, duration_ms: 0, group: 0 }));
    const line = (...names: string[]) =>
      changedLine(
        names.map((name) => file(name)),
        undefined,
        hosts,
      );
    expect(line("web1:/etc/motd", "db1:/etc/motd")).toBe("changed: /etc/motd edited on 2 hosts");
    expect(line("web1:/etc/motd")).toBe("changed: /etc/motd edited on web1");
    expect(line("web1:/a", "db1:/a", "web1:/b")).toBe("changed: 2 files on 2 hosts");
    expect(line("web1:/a", "web1:9 more files", "db1:9 more files")).toBe("changed: 10 files on 2 hosts");
  });
});

test("the progress of a model is written as in the other front ends", () => {
  const prompt = { done: 512, total: 2_048 };
  const label = (received: number, receivingMs: number) => progressLabel({ prompt, received, receivingMs });
  expect(label(0, 0)).toBe("reading the prompt: 512 of 2048 tokens (25 %)");
  expect(label(1, 0)).toBe("1 token received");
  expect(label(43, 3_500)).toBe("43 tokens received, 12 per second");
  expect(progressLabel({ prompt: undefined, received: 0, receivingMs: 0 })).toBe("");
  const odd = { done: 900, total: 0 };
  expect(progressLabel({ prompt: odd, received: 0, receivingMs: 0 })).toBe("");
});

test("consecutive hosts become ranges, as in the core", () => {
  for (const [names, short] of [
    [["app01", "app02", "app03"], "app[01-03]"],
    [["app9", "app10", "app11"], "app[9-11]"],
    [["app09", "app10", "app11", "web1"], "app[09-11], web1"],
    [["app1", "app2"], "app1, app2"],
    [["app1", "app3", "app5"], "app1, app3, app5"],
    [["me@web1.example", "me@web2.example", "me@web3.example"], "me@web[1-3].example"],
    [["10.0.0.1", "10.0.0.2", "10.0.0.3"], "10.0.0.1, 10.0.0.2, 10.0.0.3"],
    [["db", "web1", "web2", "web3"], "db, web[1-3]"],
    [["r2d1", "r2d2", "r2d3"], "r2d[1-3]"],
  ] as const) {
    expect(foldNames(names)).toBe(short);
  }
});

test("an excerpt has no signs of tables and code, but the pipes of commands", () => {
  expect(plainExcerpt("| Host | `df` | |---|:--:| | web1 | 9 % |")).toBe("Host df web1 9 %");
  expect(plainExcerpt("run ps aux | grep nginx || true")).toBe("run ps aux | grep nginx || true");
  expect(plainExcerpt("| Host | |---| | `ps | wc` | <cmd>ls | wc</cmd>")).toBe("Host ps | wc ls | wc");
});

test("the result of a background job may be lost with sysop", () => {
  expect(jobLabel("unknown")).toBe("outcome unknown: sysop or the connection ended while it ran");
  expect(jobLabel("cancelled")).toBe("canceled");
});
