// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SessionStore } from "./session-store";
import { Sessions } from "./sessions";

let sessions: Sessions;
const active = () => sessions.snapshot().active?.id;
const open = () => sessions.snapshot().open.map(({ id }) => id);

beforeEach(() => {
  sessionStorage.clear();
  vi.spyOn(SessionStore.prototype, "open").mockImplementation(() => undefined);
  history.replaceState(null, "", location.pathname);
  sessions = new Sessions();
  sessions.start();
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Goes to an entry of the history, as the browser does for Back, Forward, and an address that the user enters. */
function goTo(hash: string, state: "visited" | null = "visited"): void {
  history.replaceState(state, "", hash || location.pathname);
  window.dispatchEvent(new Event("popstate"));
}

test("another session is another entry of the history, and the same one is not", () => {
  const pushed = vi.spyOn(history, "pushState");
  sessions.show("a");
  sessions.show("b");
  sessions.show("b");
  expect(pushed.mock.calls.map(([, , hash]) => hash)).toEqual(["#/s/a", "#/s/b"]);
  expect(location.hash).toBe("#/s/b");
});

test("Back shows the earlier session, then the start screen, and keeps the tabs", () => {
  sessions.show("a");
  sessions.show("b");
  const pushed = vi.spyOn(history, "pushState");
  goTo("#/s/a");
  expect([active(), open()]).toEqual(["a", ["a", "b"]]);
  goTo("");
  expect([active(), open()]).toEqual([undefined, ["a", "b"]]);
  goTo("#/s/b");
  expect(active()).toBe("b");
  expect(pushed).not.toHaveBeenCalled();
});

test("the address of an element of the page is not that of the start screen", () => {
  sessions.show("a");
  goTo("#conversation");
  expect(active()).toBe("a");
});

test("Back does not open a closed tab again, and its address does", () => {
  sessions.show("a");
  sessions.show("b");
  expect(history.state).toBe("visited");
  sessions.closeTab("a");
  goTo("#/s/a");
  expect([active(), open(), location.hash]).toEqual(["b", ["b"], "#/s/b"]);
  goTo("#/s/a", null);
  expect([active(), open()]).toEqual(["a", ["b", "a"]]);
  sessions.closeTab("a");
  sessions.show("a");
  goTo("#/s/b");
  goTo("#/s/a");
  expect(active()).toBe("a");
});
