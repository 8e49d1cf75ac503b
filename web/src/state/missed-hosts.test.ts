import { expect, test } from "vitest";
import type { HostOutcome } from "../wire";
import type { Item } from "./item";
import { missedHosts, missedInTurn } from "./missed-hosts";

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

test("the server's machine has its own name", () => {
  const item = call([{ host: "local", status: "failed", unreachable: "no response" }]);
  expect(missedHosts([item], ["local"], "lab")).toEqual(["lab: no response"]);
});

test("a turn has missed the hosts that its last calls did not reach, as in the core", () => {
  const alone = (unreachable: boolean, started = true): Item =>
    ({ kind: "step", started, outcome: { status: "failed", unreachable, hosts: [] } }) as unknown as Item;
  const several = call([
    { host: "web2", status: "failed", unreachable: "no response" },
    { host: "web1", status: "failed", unreachable: "no response" },
    { host: "web3", status: "ok" },
  ]);
  expect(missedInTurn([], "web1")).toBeUndefined();
  expect(missedInTurn([alone(true)], "web1")).toBe("web1");
  expect(missedInTurn([alone(true), alone(false, false)], "web1")).toBe("web1");
  expect(missedInTurn([alone(true), alone(false)], "web1")).toBeUndefined();
  expect(missedInTurn([several], "web1,web2,web3")).toBe("web1,web2");
  expect(missedInTurn([several, call([{ host: "web1", status: "ok" }])], "web1,web2,web3")).toBe("web2");
});

test("a reason that names its host is not labeled", () => {
  const item = call([{ host: "web1", status: "failed", unreachable: "`web1` refused the connection" }]);
  expect(missedHosts([item], hosts)).toEqual(["`web1` refused the connection"]);
});
