// @vitest-environment happy-dom
import { createRoot } from "react-dom/client";
import { expect, test, vi } from "vitest";
import type { LinkStatus } from "../protocol/session-link";
import { SessionLink } from "../protocol/session-link";
import { SessionStore } from "../state/session-store";
import { Offline } from "./Offline";

test("the end of a loss of the connection is told, so that the list of sessions is read at once", async () => {
  const store = new SessionStore("s", new SessionLink("s"));
  let view = store.snapshot();
  let tell = () => {};
  const become = (state: LinkStatus["state"]) => {
    view = { ...view, status: { ...view.status, state, why: "no network" } };
    tell();
  };
  Object.assign(store, {
    snapshot: () => view,
    subscribe: (listener: () => void) => {
      tell = listener;
      return () => {};
    },
  });
  const back = vi.fn();
  const root = createRoot(document.body);
  root.render(<Offline store={store} back={back} closeTab={() => {}} />);
  become("offline");
  await vi.waitUntil(() => document.querySelector(".offline"));
  expect(back).not.toHaveBeenCalled();
  become("open");
  await vi.waitUntil(() => back.mock.calls.length === 1);
  root.unmount();
});
