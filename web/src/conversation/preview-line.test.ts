import { expect, test } from "vitest";
import { isUnknown, previewLine } from "./preview-line";

test("a preview without a result says why, and nothing that the risk says already", () => {
  expect(previewLine("effect unknown")).toBe("");
  expect(previewLine("effect unknown (no host)")).toBe("No preview (no host)");
  expect(previewLine("`rm a`: effect unknown (no host)")).toBe("`rm a`: no preview (no host)");
  expect(previewLine("removes 3 files")).toBe("removes 3 files");
});

test("a line without a result is told from an effect", () => {
  const lines = [
    "effect unknown (no host)",
    "`rm a`: effect unknown (no host)",
    "effect: still checking",
    "removes 3 files",
  ];
  expect(lines.map(previewLine).map(isUnknown)).toEqual([true, true, true, false]);
});
