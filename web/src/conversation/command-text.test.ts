import { expect, test } from "vitest";
import type { Finding } from "../wire";
import { partsOf } from "./CommandText";

const found = (start: number, end: number, risk: Finding["class"], why: string): Finding => ({
  start,
  end,
  class: risk,
  why,
});

test("a command is cut at its findings, which are counted in bytes", () => {
  const parts = partsOf("rm -rf /ü; ls", [found(0, 10, "dangerous", "recursive delete")]);
  expect(parts).toEqual([
    { text: "rm -rf /ü", class: "dangerous", why: "recursive delete" },
    { text: "; ls", class: undefined, why: "" },
  ]);
});

test("where findings overlap the worst counts, and all reasons are told", () => {
  const parts = partsOf("eval x", [
    found(0, 6, "opaque", "eval"),
    found(5, 6, "dangerous", "x"),
    found(5, 99, "changes", "y"),
  ]);
  expect(parts).toEqual([
    { text: "eval ", class: "opaque", why: "eval" },
    { text: "x", class: "dangerous", why: "eval; x; y" },
  ]);
  expect(parts.map(({ text }) => text).join("")).toBe("eval x");
});

test("a mark that files may begin with is kept where a part begins with it: it is shown then", () => {
  const parts = partsOf("ls; \ufeffrm x", [found(4, 11, "dangerous", "x")]);
  expect(parts.map(({ text }) => text)).toEqual(["ls; ", "\ufeffrm x"]);
});
