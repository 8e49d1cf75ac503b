import { expect, test } from "vitest";
import { overwriteOf } from "./overwrite";

const of = (text: string, preview: string[]) => overwriteOf({ path: "f", old: undefined, text }, preview);
const shown = (text: string, preview: string[]) =>
  of(text, preview)?.lines.map(({ side, text: line }) => `${side[0]} ${line}`);

test("a write shows the change of the present file", () => {
  const content = Array.from({ length: 40 }, (_, at) => `\tline ${at + 1}\n`).join("");
  const text = content.replace("line 9\n", "line nine\n");
  const preview = [
    "overwrites f (340 bytes, 41 lines): +1 −2 lines",
    "@@ -1 +1 @@",
    "-\\tline zero",
    " \\tline 1",
    "@@ -10 +9 @@",
    " \\tline 8",
    "-\\tline 9",
    "+\\tline nine",
    " \\tline 10",
  ];
  expect(of(text, preview)).toMatchObject({ counts: { added: 1, removed: 2 }, whole: true });
  expect(shown(text, preview)).toEqual([
    "r \tline zero",
    ...[
      "s \tline 1",
      "s \tline 2",
      "s \tline 3",
      "s ⋮ 2 unchanged",
      "s \tline 6",
      "s \tline 7",
      "s \tline 8",
    ],
    ...["r \tline 9", "a \tline nine", "s \tline 10", "s \tline 11", "s \tline 12", "s ⋮ 28 unchanged"],
  ]);
});

test("a preview that does not fit the text, or is cut, is no whole change", () => {
  const text = "one\ntwo\nthree\n";
  const summary = "overwrites f (9 bytes, 3 lines): +1 −1 lines";
  const parts = [
    ["@@ -2 +2 @@", " one", "… 2 more lines"],
    ["@@ -2 +2 @@", " one", "-2", "+[redacted]", " three"],
    ["@@ -9 +9 @@", " one", "-2", "+two", " three"],
    ["@@ -2 +2 @@", " one", "-2"],
    ["--- web1", "@@ -2 +2 @@", " one", "-2", "+two", " three"],
    [],
  ];
  for (const part of parts) expect(of(text, [summary, ...part])?.whole).toBe(false);
  expect(shown(text, [summary, ...(parts[0] ?? [])])).toEqual(["s @@ -2 +2 @@", "s one", "s … 2 more lines"]);
  expect(of(text, [summary, "@@ -2 +2 @@", " one", "-2", "+two", " three"])?.whole).toBe(true);
});

test("added lines that the preview omits at its end are in the new text", () => {
  const text = Array.from({ length: 30 }, (_, at) => `new ${at + 1}\n`).join("");
  const preview = (...lines: string[]) => [
    "overwrites f (12 bytes, 2 lines): +30 −2 lines",
    "@@ -1 +1 @@",
    ...lines,
  ];
  const whole = preview("-old 1", "-old 2", "+new 1", "… 29 more lines");
  expect(of(text, whole)?.whole).toBe(true);
  expect(shown(text, whole)?.at(-1)).toBe("a new 30");
  expect(of(text, preview("-old 1", "+new 1", "… 30 more lines"))?.whole).toBe(false);
  expect(of(text, preview("-old 1", "-old 2", "+new 1", " new 2", "… 28 more lines"))?.whole).toBe(false);
});

test("only a write of an existing file is an overwrite", () => {
  expect(of("a", [])).toBeUndefined();
  expect(of("a", ["creates f with 1 line"])).toBeUndefined();
  expect(of("a", ["2 hosts: overwrites f (9 bytes, 3 lines) with 1 byte"])?.verb).toBe("overwrites");
  expect(of("", ["empties f (9 bytes, 3 lines)"])?.verb).toBe("empties");
  expect(overwriteOf({ path: "f", old: "a", text: "b" }, ["overwrites f (1 byte)"])).toBeUndefined();
});
