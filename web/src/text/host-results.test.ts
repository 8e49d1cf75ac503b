import { expect, test } from "vitest";
import type { Status } from "../wire";
import { hostCounts, resultLabel } from "./host-results";

test("the results on several hosts are counted, the failures first", () => {
  const host = (name: string, status: Status) => ({ host: name, status, duration_ms: 10, group: 0 });
  const ok = ["app01", "app02", "app03"].map((name) => host(name, "ok"));
  const one = [...ok, host("db1", "failed")];
  expect([resultLabel("failed", one), hostCounts(one)]).toEqual(["failed on 1 of 4 hosts", ""]);
  const lost = { ...host("db2", "failed"), unreachable: "connection refused" };
  expect(resultLabel("failed", [...ok, lost])).toBe("not run on 1 of 4 hosts");
  expect(resultLabel("failed", [...one, lost])).toBe("failed on 1 of 5 hosts, not run on 1 of 5 hosts");
  expect([resultLabel("failed", []), hostCounts(ok)]).toEqual(["failed", "✓ 3 hosts"]);
  expect(hostCounts([host("a", "rejected"), host("b", "timeout"), host("c", "ok")])).toBe(
    "■ 1 host not run, ✗ 1 host timed out, ✓ 1 host",
  );
});
