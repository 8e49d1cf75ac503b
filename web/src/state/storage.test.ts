import { afterEach, expect, test, vi } from "vitest";
import { editedCommand, saveEditedCommand } from "./storage";

afterEach(() => vi.unstubAllGlobals());

test("an edited command is kept for its call only, until it is no longer edited", () => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  });
  expect(editedCommand("s", "c1")).toBeUndefined();
  saveEditedCommand("s", "c1", "ls -l");
  expect(editedCommand("s", "c1")).toBe("ls -l");
  expect(editedCommand("s", "c2")).toBeUndefined();
  expect(editedCommand("t", "c1")).toBeUndefined();
  saveEditedCommand("s", "c1", "");
  expect(editedCommand("s", "c1")).toBe("");
  saveEditedCommand("s", "c1", undefined);
  expect(kept.size).toBe(0);
  kept.set("sysop.edited.s", "{");
  expect(editedCommand("s", "c1")).toBeUndefined();
});
