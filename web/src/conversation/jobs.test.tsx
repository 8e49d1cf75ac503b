// @vitest-environment happy-dom
import { createRoot } from "react-dom/client";
import { expect, test, vi } from "vitest";
import { SessionLink } from "../protocol/session-link";
import { SessionStore } from "../state/session-store";
import type { SessionState } from "../wire";
import { Jobs } from "./Jobs";

const PHASES: [SessionState, number][] = [
  ["idle", 1],
  ["thinking", 0],
  ["running", 0],
  ["waiting", 0],
  ["paused", 0],
  ["stopping", 0],
];

test.each(PHASES)("in a session that is %s, a click on a job reads it %i times", async (phase, times) => {
  const store = new SessionStore("s", new SessionLink("s"));
  const read = vi.spyOn(store, "readJob").mockImplementation(() => undefined);
  const show = vi.fn();
  const jobs = [{ jobId: 2, command: "make", host: "web1" }];
  const root = createRoot(document.body.appendChild(document.createElement("div")));
  root.render(<Jobs store={store} jobs={jobs} online phase={phase} show={show} stopped={vi.fn()} />);
  const button = await vi.waitUntil(() => document.querySelector<HTMLButtonElement>(".jobs .tag"));
  button.click();
  expect([show.mock.calls, read.mock.calls.length]).toEqual([[[2]], times]);
  expect(button.title.includes("read its output")).toBe(times === 1);
  root.unmount();
});
