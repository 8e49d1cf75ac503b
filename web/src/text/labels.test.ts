import { describe, expect, test } from "vitest";
import { changedLine } from "./labels";

describe("the line about changes", () => {
  test("counts files and names the rest", () => {
    const file = (name: string, how = "edited") => ({ kind: "file" as const, name, how });
    expect(changedLine([], "exact")).toBe("");
    expect(changedLine([file("/etc/motd")], "exact")).toBe("changed: /etc/motd edited; undo: exact");
    const unit = { kind: "unit" as const, name: "nginx", how: "restarted" };
    const all = [file("/etc/a"), file("1003 more files", "changed"), unit];
    expect(changedLine(all, undefined)).toBe("changed: 1004 files, unit nginx restarted");
  });
});
