import { expect, test } from "vitest";
import { diffLines } from "./diff";
import { editOf } from "./file-edit";

const shown = (old: string | undefined, text: string) =>
  diffLines({ path: "f", old, text }).map(({ side, text: line }) => `${side[0]} ${line}`);

test("an edit is shown as removed and added lines with their context", () => {
  const old = "one\ntwo\nthree\n";
  expect(shown(old, "one\n2\nthree\n")).toEqual(["s one", "r two", "a 2", "s three"]);
  expect(shown("a", "a")).toEqual(["s ⋮ 1 unchanged"]);
});

test("all lines of a written file are added", () => {
  expect(shown(undefined, "one\n\ntwo\n")).toEqual(["a one", "a ", "a two"]);
});

test("unchanged lines far from a change are counted", () => {
  const many = Array.from({ length: 20 }, (_, at) => `line ${at}`);
  const lines = shown(many.join("\n"), [...many.slice(0, 19), "other"].join("\n"));
  expect(lines).toEqual(["s ⋮ 16 unchanged", "s line 16", "s line 17", "s line 18", "r line 19", "a other"]);
});

test("a line break added to or removed from the last line is shown", () => {
  expect(shown("a", "a\n")).toEqual(["s a", "a (newline at end of file)"]);
  expect(shown("a\n", "a")).toEqual(["s a", "r (newline at end of file)"]);
});

test("only complete calls of file tools count as edits", () => {
  expect(editOf("write_file", { path: "f", content: "x" })).toEqual({ path: "f", old: undefined, text: "x" });
  expect(editOf("edit_file", { path: "f", old_string: "x" })).toBeUndefined();
  expect(editOf("bash", { path: "f", content: "x" })).toBeUndefined();
  expect(editOf("write_file", null)).toBeUndefined();
});
