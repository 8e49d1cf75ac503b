import { expect, test } from "vitest";
import type { HostOutcome } from "../wire";
import type { Item } from "./item";
import { missedHosts } from "./missed-hosts";

function call(hosts: Partial<HostOutcome>[]): Item {
  return { kind: "step", outcome: { hosts } } as unknown as Item;
}

const hosts = ["web1", "web2", "web3", "time"];

test("hosts that the last call missed are named with the reason until a call runs there", () => {
  const first = call([
    { host: "web1", status: "ok" },
    { host: "web2", status: "failed", unreachable: "web2: connection refused (port 1); check the port" },
    { host: "web3", status: "failed", unreachable: "web3: connection refused (port 1); check the port" },
    { host: "time", status: "failed", unreachable: "time: no response in time" },
  ]);
  const refused = "connection refused (port 1)";
  expect(missedHosts([first], hosts)).toEqual(["time: no response in time", `web2, web3: ${refused}`]);
  expect(missedHosts([first], ["web1", "web3"])).toEqual([`web3: ${refused}`]);
  const next = call([
    { host: "web2", status: "ok" },
    { host: "web3", status: "rejected" },
    { host: "time", status: "failed", exit_code: 1 },
  ]);
  expect(missedHosts([first, next], hosts)).toEqual([`web3: ${refused}`]);
});

test("a reason that names its host is not labeled", () => {
  const item = call([{ host: "web1", status: "failed", unreachable: "`web1` refused the connection" }]);
  expect(missedHosts([item], hosts)).toEqual(["`web1` refused the connection"]);
});
