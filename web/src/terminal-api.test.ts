import { expect, test } from "vitest";
import { pageKeyInTerminal } from "./terminal-api";

test("of the page's keys, F1 and Alt+T work in the terminal", () => {
  const key = (key: string, code: string, held: string[] = []) =>
    pageKeyInTerminal({
      key,
      code,
      altKey: held.includes("alt"),
      ctrlKey: held.includes("ctrl"),
      metaKey: held.includes("meta"),
      shiftKey: held.includes("shift"),
    });
  expect(key("F1", "F1")).toBe("palette");
  expect(key("t", "KeyT", ["alt"])).toBe("toggleTerminal");
  expect(key("†", "KeyT", ["alt"])).toBe("toggleTerminal");
  for (const [name, code, ...held] of [
    ["F1", "F1", "shift"],
    ["F2", "F2"],
    ["t", "KeyT"],
    ["t", "KeyT", "ctrl"],
    ["t", "KeyT", "alt", "ctrl"],
    ["k", "KeyK", "ctrl"],
    ["n", "KeyN", "alt"],
    ["?", "Slash", "shift"],
  ]) {
    expect(key(name ?? "", code ?? "", held)).toBeUndefined();
  }
});
