import { expect, test } from "vitest";
import { ShellWatch } from "./shell-watch";

test("a shell is lost if another server has the next one", () => {
  const shells = new ShellWatch();
  expect(["a", "a", "b", "b"].map((server) => shells.attached(server))).toEqual([false, false, true, false]);
});

test("a shell that ended before the restart is not lost", () => {
  const shells = new ShellWatch();
  shells.attached("a");
  shells.ended();
  expect(shells.attached("b")).toBe(false);
});
