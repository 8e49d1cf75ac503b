import { expect, test } from "vitest";
import { previewLine, whyOf } from "./finding-words";

const why = (command: string, path: string) => {
  const start = command.indexOf(path);
  const finding = { start, end: start + path.length, class: "changes" as const, why: "writes to a file" };
  return whyOf(command.slice(0, start), finding);
};

test("what a command removes is deleted, and what it writes is written", () => {
  for (const command of [
    "rm -rf a X",
    "ls; sudo -n rm X",
    "cd a && /bin/rm -- X",
    "if true\nthen\nrmdir X",
    "(shred -u X)",
  ]) {
    expect(why(command, "X")).toBe("deletes");
  }
  for (const command of ["rm a > X", "rm a; cp b X", "echo rm X", "tee X", "rm a | tee X"]) {
    expect(why(command, "X")).toBe("writes to a file");
  }
  expect(whyOf("rm ", { start: 3, end: 4, class: "dangerous", why: "removes everything" })).toBe(
    "removes everything",
  );
});

test("a preview without a result says why, and nothing that the risk says already", () => {
  expect(previewLine("effect unknown")).toBe("");
  expect(previewLine("effect unknown (no host)")).toBe("No preview (no host)");
  expect(previewLine("`rm a`: effect unknown (no host)")).toBe("`rm a`: no preview (no host)");
  expect(previewLine("removes 3 files")).toBe("removes 3 files");
});
