// @vitest-environment happy-dom
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SessionList } from "../state/session-list";
import { Sidebar } from "./Sidebar";

const nothing = () => undefined;
const sessions = { closeTab: nothing } as unknown as Parameters<typeof Sidebar>[0]["sessions"];
const choose = vi.fn();
let root: Root;
/** Requests to the server, as method and path. */
let requests: string[];

beforeEach(async () => {
  requests = [];
  vi.stubGlobal("fetch", async (path: string, init?: RequestInit) => {
    requests.push(`${init?.method ?? "GET"} ${path}`);
    const all = ["alpha", "beta", "gamma"].map((title) => ({
      sessionId: title,
      title,
      host: "local",
      changed: Date.now(),
    }));
    const search = new URL(path, "http://page").searchParams.get("search") ?? "";
    return Response.json({ sessions: all.filter(({ title }) => title.includes(search)) });
  });
  root = createRoot(document.body.appendChild(document.createElement("div")));
  root.render(
    <Sidebar
      sessions={sessions}
      tabs={{ open: [], active: undefined }}
      list={new SessionList()}
      waiting={new Set()}
      connect={nothing}
      choose={choose}
      close={nothing}
      over={false}
      asked={1}
    />,
  );
  await vi.waitUntil(() => titles().length === 3);
});
afterEach(() => {
  root.unmount();
  document.body.replaceChildren();
  vi.unstubAllGlobals();
  choose.mockReset();
});

const titles = () => [...document.querySelectorAll(".choose .name")].map((name) => name.textContent?.trim());
const focused = () =>
  document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent;
const button = (name: string) =>
  [...document.querySelectorAll("button")].find(
    (found) => (found.getAttribute("aria-label") ?? found.textContent) === name,
  );

function press(key: string): void {
  document.activeElement?.dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }),
  );
}

test("the question before a deletion has the focus, on the answer that keeps the session", async () => {
  button("Actions for beta")?.click();
  const ask = await vi.waitUntil(() => button("Delete…"));
  ask.focus();
  ask.click();
  await vi.waitUntil(() => button("Delete permanently"));
  expect(focused()).toBe("Keep");
  button("Keep")?.click();
  // Nothing else appears under the pointer that kept the session.
  await vi.waitUntil(() => button("Keep") === undefined);
  expect(button("Pin")).toBeUndefined();
  expect(focused()).toBe("Actions for beta");
  expect(requests.filter((request) => !request.startsWith("GET"))).toEqual([]);
});

test("arrows go from the search to the sessions and back", () => {
  expect(focused()).toBe("Search sessions");
  press("ArrowDown");
  expect(focused()).toMatch(/alpha/);
  press("ArrowDown");
  expect(focused()).toMatch(/beta/);
  press("ArrowUp");
  press("ArrowUp");
  expect(focused()).toBe("Search sessions");
});

test("Enter in the search opens the first session found, and not one of an earlier search", async () => {
  press("Enter");
  const field = document.activeElement as HTMLInputElement;
  field.value = "beta";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  press("Enter");
  expect(choose).not.toHaveBeenCalled();
  await vi.waitUntil(() => titles().length === 1, { timeout: 10_000 });
  press("Enter");
  expect(choose).toHaveBeenCalledExactlyOnceWith("beta");
});
