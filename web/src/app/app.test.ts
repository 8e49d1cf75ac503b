import { expect, test, vi } from "vitest";
import type { Me, SessionRow } from "../protocol/api";
import type { Step } from "../state/item";
import { SessionList } from "../state/session-list";
import type { SessionStore } from "../state/session-store";
import { emptyTranscript, type Transcript } from "../state/transcript";
import { pageActions } from "./actions";
import { findActions } from "./CommandPalette";
import { countStates, hostStates, lastStep } from "./HostTable";
import { inOrder } from "./Sidebar";
import { usesTerminal } from "./terminal-use";

test("the palette searches names and details for each word, and lists matches at the beginning first", () => {
  const action = (name: string, detail = "") => ({ name, detail, run: () => undefined });
  const actions = [
    action("Show the terminal"),
    action("Theme: dark"),
    action("Stop"),
    action("Go to the host"),
  ];
  const found = (search: string) => findActions(actions, search).map(({ name }) => name);
  expect(found("the")).toEqual(["Theme: dark", "Show the terminal", "Go to the host"]);
  expect(found("HOST go")).toEqual(["Go to the host"]);
  expect(found("")).toHaveLength(4);
  expect(found("nothing")).toEqual([]);
});

test("waiting sessions come first, the pinned ones before others, and all groups keep their order", () => {
  const rows = [["a"], ["b", true], ["c"], ["d", true]].map(
    ([sessionId, pinned]) => ({ sessionId, pinned }) as SessionRow,
  );
  const ordered = (...waiting: string[]) => inOrder(rows, new Set(waiting)).map(({ sessionId }) => sessionId);
  expect(ordered()).toEqual(["b", "d", "a", "c"]);
  expect(ordered("d", "c")).toEqual(["d", "c", "b", "a"]);
});

test("hosts are not contacted before a call runs on them", () => {
  const step = (started: boolean, hosts?: string[]) =>
    ({ kind: "step", started, outcome: hosts && { hosts } }) as unknown as Step;
  const [proposed, running, onHosts, inSession] = [
    step(false),
    step(true),
    step(true, ["web1"]),
    step(true, []),
  ];
  expect(lastStep([proposed, inSession])).toBeUndefined();
  expect(lastStep([onHosts, inSession])).toBe(onHosts);
  expect(lastStep([onHosts, running])).toBe(running);
});

test("a host's state is the outcome of the call there, or what is known of it during the call", () => {
  const hostsEnded = [{ host: "web1", status: "failed", exitCode: 3, durationMs: 5 }];
  const running = { hostsEnded, outcome: undefined } as unknown as Step;
  const statuses = (step: Step | undefined) => hostStates(["web1", "web2"], step).map(({ status }) => status);
  expect(statuses(undefined)).toEqual([undefined, undefined]);
  expect(statuses(running)).toEqual(["failed", undefined]);
  const hosts = [
    { host: "web2", status: "ok", exit_code: 0, duration_ms: 9, group: 0 },
    { host: "web1", status: "failed", exit_code: 3, duration_ms: 5, group: 1 },
  ];
  const ended = { hostsEnded, outcome: { hosts } } as unknown as Step;
  const [web2] = hosts;
  const down = { host: "web1", status: "failed", duration_ms: 0, group: 1, unreachable: "web1: no route" };
  const missed = { hostsEnded: [], outcome: { hosts: [web2, down] } } as unknown as Step;
  expect(hostStates(["web1"], missed)).toMatchObject([
    { host: "web1", status: "rejected", unreachable: "no route" },
  ]);
  expect(countStates(hostStates(["web1", "web2", "web3"], missed))).toEqual({
    done: 1,
    notRun: 1,
    failed: 0,
  });
  expect(countStates(hostStates(["web1", "web2"], running))).toEqual({ done: 1, notRun: 0, failed: 1 });
  expect(hostStates(["web1", "web2"], ended)).toEqual([
    { host: "web1", status: "failed", exitCode: 3, durationMs: 5 },
    { host: "web2", status: "ok", exitCode: 0, durationMs: 9 },
  ]);
});

test("the palette begins with an action that changes nothing", () => {
  const snapshot = () => ({
    mode: "agent",
    transcript: { ...emptyTranscript, lastPrompt: "restart it", phase: "idle" },
  });
  const store = { id: "s", snapshot } as unknown as SessionStore;
  const first = (me: Me | undefined) =>
    pageActions({
      me,
      tabs: { open: [store], active: store },
      sessionList: new SessionList(),
    } as unknown as Parameters<typeof pageActions>[0])[0]?.name;
  expect(first(undefined)).toBe("New session");
  expect(first({ name: "guest", operate: false, decide: true })).toBe("List and search sessions");
});

test("the palette also finds the sessions that are not open here", () => {
  const transcript = { ...emptyTranscript, facts: { host: "web1,web2" } };
  const store = { id: "a", snapshot: () => ({ mode: "agent", transcript }) } as unknown as SessionStore;
  const rows = ["a", "b"].map(
    (id) => ({ sessionId: id, title: `task ${id}`, host: "app1,app2,app3" }) as SessionRow,
  );
  const list = new SessionList();
  vi.spyOn(list, "snapshot").mockReturnValue({ rows, problem: undefined });
  const show = vi.fn();
  const actions = pageActions({
    tabs: { open: [store], active: store },
    sessionList: list,
    sessions: { show },
  } as unknown as Parameters<typeof pageActions>[0]);
  expect(findActions(actions, "task").map(({ name }) => name)).toEqual(["Open task b"]);
  findActions(actions, "task b")[0]?.run();
  expect(show).toHaveBeenCalledWith("b");
  expect(findActions(actions, "show or hide").map(({ name }) => name)).toEqual(["Show or hide the hosts"]);
  expect(findActions(actions, "task b")[0]?.detail).toBe("3 hosts: app[1-3]");
});

test("a session uses its terminal if a tool or a person does, or if it has several hosts instead", () => {
  const transcript = (more: object) => ({ ...emptyTranscript, ...more }) as unknown as Transcript;
  const step = (tool: string) => transcript({ items: [{ kind: "step", tool }] });
  expect(usesTerminal(emptyTranscript)).toBe(false);
  expect(usesTerminal(step("bash"))).toBe(false);
  expect(usesTerminal(step("send_keys"))).toBe(true);
  expect(usesTerminal(step("run_command"))).toBe(true);
  expect(usesTerminal(transcript({ holder: "web" }))).toBe(true);
  expect(usesTerminal(transcript({ facts: { host: "web1,web2" } }))).toBe(true);
});
