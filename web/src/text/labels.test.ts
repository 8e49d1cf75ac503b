import { describe, expect, test } from "vitest";
import { boundsLabel, changedLine, expiryLabel, shortTime } from "./labels";

test("a countdown is written as in the other front ends", () => {
  const times = [0, 1, 119_000, 119_001, 3_600_000, 3_601_000].map(shortTime);
  expect(times).toEqual(["0s", "1s", "119s", "2m", "1h", "1h1m"]);
  expect(boundsLabel({ commands: 1, until: 90_000, cost: 0.314, hosts: ["@lab"] }, 30_000)).toBe(
    "1 command, 60s, $0.31, @lab left",
  );
  expect(expiryLabel(1_000, 1_000)).toBe("Expired.");
});

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
