// @vitest-environment happy-dom
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Link, LinkState } from "../protocol/session-link";
import type { ClientMessage, ServerMessage } from "../wire";
import { TerminalSession, type TerminalStatus } from "./terminal-session";

/** State of the faked screen. */
const screen = {
  bracketed: true,
  alternate: false,
  line: "",
  row: 0,
  undrawn: [] as (() => void)[],
  parsed: () => {},
};

/** The shell draws its next prompt, as after Ctrl+C. */
function prompts(line = "$ "): void {
  screen.row += 1;
  screen.line = line;
  screen.parsed();
}

/** Draws what was written, as the terminal does at its next chance. */
function draw(): void {
  for (const done of screen.undrawn.splice(0)) done();
}

vi.mock("./screen", () => ({
  SCROLLBACK_ROWS: 10,
  textOf: () => "",
  lineToCursor: () => screen.line,
  isBlankAtCursor: () => true,
  makeScreen: () => ({
    term: {
      cols: 80,
      rows: 24,
      get modes() {
        return { bracketedPasteMode: screen.bracketed, applicationCursorKeysMode: false };
      },
      get buffer() {
        return { active: { type: screen.alternate ? "alternate" : "normal", baseY: 0, cursorY: screen.row } };
      },
      parser: { registerCsiHandler: () => undefined },
      onWriteParsed: (listener: () => void) => {
        screen.parsed = listener;
      },
      registerMarker: () => ({ line: screen.row, dispose: () => undefined }),
      onData: () => undefined,
      onBinary: () => undefined,
      onSelectionChange: () => undefined,
      attachCustomKeyEventHandler: () => undefined,
      write: (_: string, done: () => void) => screen.undrawn.push(done),
      resize: () => undefined,
      refresh: () => undefined,
      focus: () => undefined,
    },
    room: () => undefined,
    dispose: () => undefined,
  }),
}));

const DROP_LINE = "\u0003";

beforeEach(() => {
  Object.assign(screen, { bracketed: true, alternate: false, line: "$ ", row: 0, undrawn: [] });
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe() {}
      disconnect() {}
    },
  );
});

/** A terminal whose shell is not open yet. */
function world() {
  const sent: ClientMessage[] = [];
  let tell = (_: ServerMessage) => {};
  let become = (_: LinkState) => {};
  const link: Link = {
    send: (message) => sent.push(message),
    on: (listener) => {
      tell = listener;
      return () => undefined;
    },
    onState: (listener) => {
      become = listener;
      listener("open");
      return () => undefined;
    },
  };
  let status: Partial<TerminalStatus> = {};
  const show = (change: Partial<TerminalStatus>) => {
    status = { ...status, ...change };
  };
  const session = new TerminalSession(link, document.createElement("div"), "dark", show);
  const begins = () =>
    tell({ type: "terminal.output", sessionId: "s", data: "$ ", reset: true } as ServerMessage);
  return {
    session,
    asking: () => status.asking,
    status: () => status,
    become: (state: LinkState) => become(state),
    typed: () => sent.flatMap((message) => (message.type === "terminal.input" ? [message.data] : [])),
    begins,
    opens: () => {
      begins();
      draw();
    },
    ends: () => tell({ type: "terminal.output", sessionId: "s", ended: "exited" } as ServerMessage),
    fails: () => tell({ type: "error", sessionId: "s", code: "no_terminal", message: "no" } as ServerMessage),
  };
}

test("a command and keys that come before the shell wait for it, in order", () => {
  const { session, typed, opens } = world();
  session.insert("df -h");
  session.typeKey("x");
  expect(typed()).toEqual([]);
  opens();
  expect(typed()).toEqual(["\u001b[200~df -h\u001b[201~", "x"]);
});

test("a command for a shell that cannot be opened does not run later", () => {
  const { session, typed, opens, fails, become } = world();
  session.run("reboot");
  fails();
  session.again();
  opens();
  expect(typed()).toEqual([]);
  session.again();
  session.run("reboot");
  become("offline");
  become("open");
  opens();
  expect(typed()).toEqual([]);
});

test("a command after the end of the shell waits for the next one", () => {
  const { session, typed, opens, ends } = world();
  opens();
  ends();
  session.run("uptime");
  expect(typed()).toEqual([]);
  opens();
  expect(typed()).toEqual(["\u001b[200~uptime\u001b[201~\r"]);
});

test.each<[string, (session: TerminalSession) => unknown]>([
  ["typed", (session) => session.typeKey("rm")],
  ["inserted", (session) => session.insert("rm")],
  ["recalled", (session) => session.arrow("A")],
  ["hidden by an editing mode", (session) => [session.typeKey("x"), session.typeKey("\u0015")]],
  ["left by somebody else", () => Object.assign(screen, { line: "$ rm" })],
  ["begun in an earlier line", () => Object.assign(screen, { line: "> " })],
])("a command replaces a line with text that was %s only after a confirmation", (_, write) => {
  const { session, typed, opens, status } = world();
  opens();
  write(session);
  const before = typed();
  session.run("ls");
  expect(typed()).toEqual(before);
  expect(status().asking?.why).toMatch(/^Replace the text on the line\?/);
  status().asking?.no();
  expect(typed()).toEqual(before);
  session.run("ls");
  status().asking?.yes();
  expect(typed()).toEqual([...before, DROP_LINE]);
  expect(status().hint).toMatch(/^Waiting/);
  screen.parsed();
  expect(typed()).toEqual([...before, DROP_LINE]);
  prompts();
  expect(typed()).toEqual([...before, DROP_LINE, "\u001b[200~ls\u001b[201~\r"]);
  expect(status().hint).toBe("");
  prompts();
  expect(typed()).toHaveLength(before.length + 2);
});

test.each<[string, (its: ReturnType<typeof world>) => void]>([
  ["a key", ({ session }) => session.typeKey("x")],
  ["the end of the shell", ({ ends }) => ends()],
  ["a new connection", ({ become, opens }) => [become("offline"), become("open"), opens()]],
])("%s cancels a command that waits for an empty line", (_, cancel) => {
  const its = world();
  its.opens();
  its.session.typeKey("x");
  its.session.run("ls");
  its.status().asking?.yes();
  cancel(its);
  prompts();
  expect(its.typed().filter((data) => data.includes("ls"))).toEqual([]);
  expect(its.status().hint).toBe("");
});

test.each<[string, (its: ReturnType<typeof world>) => void]>([
  ["no prompt comes in time", () => vi.advanceTimersByTime(5_000)],
  ["the screen is drawn again", ({ begins }) => begins()],
])("a command that waits for an empty line is not typed if %s", (_, end) => {
  vi.useFakeTimers();
  const its = world();
  its.opens();
  its.session.typeKey("x");
  its.session.run("ls");
  its.status().asking?.yes();
  end(its);
  prompts();
  draw();
  prompts();
  vi.useRealTimers();
  expect(its.typed()).toEqual(["x", DROP_LINE]);
  expect(its.status().hint).toMatch(/^Not typed/);
  its.session.typeKey("y");
  expect(its.status().hint).toBe("");
});

test("a question is asked again if the line has changed since", () => {
  const { session, typed, opens, status } = world();
  opens();
  session.run("ls\nid");
  expect(status().asking?.why).toMatch(/^This text has 2 lines[^?]*$/);
  screen.line = "$ rm";
  status().asking?.yes();
  expect(typed()).toEqual([]);
  expect(status().asking?.why).toMatch(/2 lines.*Replace the text on the line\?/);
});

test("text in a program that has the whole screen is not dropped", () => {
  const { session, typed, opens, status } = world();
  opens();
  screen.alternate = true;
  session.typeKey("x");
  session.insert("text");
  expect(status().asking?.why).toBe("A program is running in the terminal; it would get these keys.");
  expect(status().asking?.focus).toBe("no");
  status().asking?.yes();
  session.paste("part of a line");
  expect(typed()).toEqual(["x", "\u001b[200~text\u001b[201~", "\u001b[200~part of a line\u001b[201~"]);
});

test("a program that has the whole screen gets no command unasked, wherever its cursor is", () => {
  const { session, typed, opens, asking } = world();
  opens();
  Object.assign(screen, { alternate: true, line: "" });
  session.run("rm -rf /tmp/x");
  expect(typed()).toEqual([]);
  expect(asking()?.why).toMatch(/it would get these keys/);
});

test("a question is asked of each command, with the focus on its safer answer", () => {
  const { session, typed, opens, asking } = world();
  opens();
  session.run("rm -rf /tmp/x", "Run this in the terminal on lab?");
  expect(typed()).toEqual([]);
  expect(asking()).toMatchObject({
    why: "Run this in the terminal on lab?",
    text: "rm -rf /tmp/x",
    verb: "Run",
    focus: "no",
  });
  asking()?.no();
  expect(typed()).toEqual([]);
  session.run("ls\nid", "Run this in the terminal on lab?");
  expect(asking()?.why).toMatch(/^Run this in the terminal on lab\? This text has 2 lines/);
  asking()?.yes();
  expect(typed()).toEqual(["\u001b[200~ls\rid\u001b[201~\r"]);
});

test("the focus of the terminal is no text", () => {
  const { session, typed, opens } = world();
  opens();
  session.typeKey("\u001b[I");
  session.run("ls");
  expect(typed()).toEqual(["\u001b[I", "\u001b[200~ls\u001b[201~\r"]);
});

test("keys overtake no command that waits until the screen is drawn", () => {
  const { session, typed, begins } = world();
  screen.bracketed = false;
  session.insert("df -h");
  begins();
  session.typeKey("\r");
  session.run("uptime");
  expect(typed()).toEqual([]);
  screen.bracketed = true;
  draw();
  expect(typed()).toEqual(["\u001b[200~df -h\u001b[201~", "\r", "\u001b[200~uptime\u001b[201~\r"]);
});

test("the screen of an earlier connection does not open this one to input", () => {
  const { session, typed, begins, opens, become } = world();
  begins();
  become("offline");
  become("open");
  session.insert("df -h");
  draw();
  expect(typed()).toEqual([]);
  opens();
  expect(typed()).toHaveLength(1);
});

test("keys for a shell that ends before it is drawn open no other one", () => {
  const { session, typed, begins, opens, ends } = world();
  session.typeKey("\r");
  session.typeKey("x");
  begins();
  ends();
  draw();
  opens();
  expect(typed()).toEqual([]);
});

test("the input that waits for a shell is bounded", () => {
  const { session, typed, opens } = world();
  for (let count = 0; count < 1500; count += 1) session.run("uptime");
  opens();
  expect(typed().filter((data) => data.endsWith("\r"))).toHaveLength(1000);
});

describe("in a shell without line editor", () => {
  beforeEach(() => {
    screen.bracketed = false;
  });

  test("a second command in the line has to be confirmed", () => {
    const { session, typed, opens, asking } = world();
    opens();
    session.insert("df -h");
    session.insert("rm -rf /tmp/x");
    expect(typed()).toEqual(["df -h"]);
    expect(asking()?.why).toMatch(/would be appended/);
    asking()?.no();
    expect(typed()).toEqual(["df -h"]);
    session.typeKey("\r");
    session.insert("uptime");
    expect(typed()).toEqual(["df -h", "\r", "uptime"]);
  });

  test.each<[string, (session: TerminalSession) => unknown]>([
    ["typed", (session) => ["l", "s", " "].map((key) => session.typeKey(key))],
    ["pasted", (session) => session.paste("rm -rf /tmp/x ")],
    ["inserted and edited", (session) => [session.insert("rm -rf /tmp/xy"), session.typeKey("\u007f")]],
    ["typed after a line", (session) => [session.run("cd /tmp"), session.typeKey("x")]],
    ["left by somebody else", () => Object.assign(screen, { line: "$ rm -rf /tmp/x " })],
  ])("a command for a line with text that was %s has to be confirmed", (_, write) => {
    const { session, typed, opens, asking } = world();
    opens();
    write(session);
    const before = typed();
    session.run("ls");
    expect(typed()).toEqual(before);
    expect(asking()?.why).toMatch(/would be appended/);
    asking()?.yes();
    expect(typed()).toEqual([...before, "ls\r"]);
    screen.line = "$ ";
    session.run("ls");
    expect(typed()).toEqual([...before, "ls\r", "ls\r"]);
  });

  test.each(["\r", "\n", "\u0003"])("%j empties the line for a command", (key) => {
    const { session, typed, opens } = world();
    opens();
    session.typeKey("x");
    session.typeKey(key);
    session.run("ls");
    expect(typed()).toEqual(["x", key, "ls\r"]);
  });

  test("a new shell has an empty line", () => {
    const { session, typed, opens, ends } = world();
    opens();
    session.typeKey("x");
    ends();
    session.again();
    opens();
    session.run("ls");
    expect(typed()).toEqual(["x", "ls\r"]);
  });

  test("one question has both reasons", () => {
    const { session, typed, opens, asking } = world();
    opens();
    session.typeKey("x");
    session.run("ls\nid");
    expect(asking()?.why).toMatch(/2 lines.*would be appended/);
    asking()?.yes();
    expect(typed()).toEqual(["x", "ls\rid\r"]);
  });
});
