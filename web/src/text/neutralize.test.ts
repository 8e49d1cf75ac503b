import { expect, test } from "vitest";
import {
  confusableCharacters,
  neutralize,
  neutralizeLine,
  neutralizeProse,
  pieces,
  plainOutput,
  safeHref,
  stripInvisible,
} from "./neutralize";

test("control, bidirectional and invisible characters are escaped as in sysop-core", () => {
  expect(neutralize("a\u001b[31mb\u0007\u0000")).toBe("a\\x1b[31mb\\x07\\x00");
  expect(neutralize("x\u202etxt.exe\u2066")).toBe("x\\u{202e}txt.exe\\u{2066}");
  expect(neutralize("zero\u200bwidth\u{e0041}\ufeff")).toBe("zero\\u{200b}width\\u{e0041}\\u{feff}");
  expect(neutralize("line\r\nnext\ttab\rback\u0085")).toBe("line\nnext\ttab\\rback\\x85");
  expect(neutralize("plain ü 漢 👍\ufe0f")).toBe("plain ü 漢 👍\ufe0f");
});

test("line breaks, tabs and unusual spaces are escaped in text of one line", () => {
  expect(neutralizeLine("a\nb\tc\u00a0d\u3000e")).toBe(
    "a\\nb\\tc\\u{a0}d\\u{3000}e".replace("\\u{a0}", "\\xa0"),
  );
  expect(stripInvisible("a\u202e\nb\u0000\u00a0c\td")).toBe("a\nbc\td");
});

test("colors and cursor movements are removed from the output of a program", () => {
  expect(plainOutput("\u001b[1;32mok\u001b[0m\r\n\u001b]0;title\u0007x\u001b[2K")).toBe("ok\nx");
  expect(plainOutput("half \u001b")).toBe("half \\x1b");
});

test("of a line of output that is written again, the last text is shown", () => {
  expect(plainOutput("get\n\r[#  ] 2%\r[## ] 5%")).toBe("get\n[## ] 5%");
  expect(plainOutput("[#  ] 2%\r[## ] 5%\r")).toBe("[## ] 5%");
  expect(plainOutput("[#  ] 2%\r\r\n\r\r\ndone\r\n")).toBe("[#  ] 2%\n\ndone\n");
  expect(neutralize("a\rb")).toBe("a\\rb");
});

test("letters that only look Latin are listed", () => {
  expect(confusableCharacters("rm /hоme; привет")).toEqual(["о (U+043E)"]);
  expect(confusableCharacters("ls /home")).toEqual([]);
});

test("only addresses of known schemes become links", () => {
  expect(safeHref("https://example.org/a")).toBe("https://example.org/a");
  expect(safeHref("mailto:me@example.org")).toBe("mailto:me@example.org");
  for (const bad of [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "/api",
    "#/s/x",
    "file:///etc",
    " \u0001javascript:x",
  ]) {
    expect(safeHref(bad), bad).toBeUndefined();
  }
});

test("a joiner is kept between emoji and escaped elsewhere", () => {
  expect(neutralize("👩‍💻 👨‍👩‍👧 🏳️‍🌈 👩🏽‍🚀")).toBe("👩‍💻 👨‍👩‍👧 🏳️‍🌈 👩🏽‍🚀");
  expect(neutralize("a\u200db 👩\u200d \u200d💻")).toBe("a\\u{200d}b 👩\\u{200d} \\u{200d}💻");
});

test("prose leaves zero-width characters out and shows the rest", () => {
  expect(neutralizeProse("zero\u200bwidth\u00adly \u{1f469}\u200d\u{1f4bb}\u200d")).toBe(
    "zerowidthly \u{1f469}\u200d\u{1f4bb}",
  );
  expect(neutralizeProse("a\u202eb\u001b[2J")).toBe("a\\u{202e}b\\x1b[2J");
});

test("a joined emoji is one piece of a prompt", () => {
  expect(pieces("\u{1f469}\u200d\u{1f4bb}")).toEqual([{ text: "\u{1f469}\u200d\u{1f4bb}", odd: false }]);
});
