import { expect, test } from "vitest";
import { lostResult, RUNNING_NOTE, runningProgram } from "./running-program";

test("a program that still runs in the terminal is told from a lost outcome, as in the core", () => {
  const told = (output: string, status: "unknown" | "ok" = "unknown") => runningProgram({ status, output });
  const waits = "[the command is still running and seems to wait for an answer; answer with send_keys]";
  const full =
    "[a full-screen program is still running; continue with send_keys, and end it before the next command]";
  const pager = "[a pager is still open; use send_keys to show the next page (Space) or to quit (q)]";
  const shell =
    "[another shell (python) is running inside the terminal's shell and receives all commands until `exit`]";
  expect(told(`Continue? [y/n]\n${waits}`)).toBe("still running; it waits for input");
  expect(told(`${waits}\n[no undo: saving failed]\n`)).toBe("still running; it waits for input");
  expect(told(full)).toBe("still running in the terminal");
  expect(told(pager)).toBe("still running in the terminal");
  expect(told(shell)).toBe("another shell is open in the terminal");
  expect(told("the connection was lost")).toBeUndefined();
  expect(told(`${waits}\nmore`)).toBeUndefined();
  expect(told(waits, "ok")).toBeUndefined();
  expect(told(`x ${waits}`)).toBeUndefined();
  expect(told(`[${waits}`)).toBeUndefined();
  expect(`Continue? [y/n]\n${waits}`.replace(RUNNING_NOTE, "")).toBe("Continue? [y/n]\n");
});

test("what is known about a lost result is told", () => {
  const told = (output: string) => lostResult({ status: "unknown", output });
  expect(told("1\n[the command ended, but its exit code was lost]\n[no undo: timed out]\n")).toBe(
    "ended; its exit code was lost",
  );
  expect(
    told("[the connection ended; the shell ended with exit code 255; the next call opens a new one]"),
  ).toBe("outcome unknown: the connection ended; not run again");
  expect(told("[done]")).toBeUndefined();
  expect(
    lostResult({ status: "ok", output: "[the command ended, but its exit code was lost]" }),
  ).toBeUndefined();
});

test.each([
  ["brackets in a line", "[".repeat(300_000)],
  ["notes about undo", "[no undo: no]\n".repeat(30_000)],
])("many %s are searched once, not once from each of them", (_, output) => {
  expect(runningProgram({ status: "unknown", output: `${output}end` })).toBeUndefined();
});
