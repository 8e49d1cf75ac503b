import { expect, test } from "vitest";
import { previewLine } from "./preview-line";

test("a preview without a result says why, and nothing that the risk says already", () => {
  expect(previewLine("effect unknown")).toBe("");
  expect(previewLine("effect unknown (no host)")).toBe("No preview (no host)");
  expect(previewLine("`rm a`: effect unknown (no host)")).toBe("`rm a`: no preview (no host)");
  expect(previewLine("removes 3 files")).toBe("removes 3 files");
});
