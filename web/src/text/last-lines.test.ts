import { expect, test } from "vitest";
import { earlierLabel, lastLines } from "./last-lines";

test("long text is cut at the beginning of a line, and the lines before are counted", () => {
  expect(lastLines("a\nb\n", 9)).toEqual({ shown: "a\nb\n", lines: 0, chars: 0 });
  expect(lastLines("one\ntwo\nthree\n", 8)).toEqual({ shown: "three\n", lines: 2, chars: 8 });
  expect(lastLines("one\ntwo\nthree\n", 6)).toEqual({ shown: "three\n", lines: 2, chars: 8 });
});

test("one long line is cut between characters", () => {
  expect(lastLines("abcdef\n", 3)).toEqual({ shown: "ef\n", lines: 0, chars: 4 });
  expect(lastLines("ab😀cd", 3)).toEqual({ shown: "cd", lines: 0, chars: 4 });
});

test("characters are counted only within one line", () => {
  expect([earlierLabel(773, 9), earlierLabel(1, 9), earlierLabel(0, 9), earlierLabel(0, 1)]).toEqual([
    "773 earlier lines",
    "1 earlier line",
    "9 earlier characters",
    "1 earlier character",
  ]);
});
