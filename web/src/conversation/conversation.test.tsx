// @vitest-environment happy-dom
import { createRoot } from "react-dom/client";
import { expect, test, vi } from "vitest";
import { SessionLink } from "../protocol/session-link";
import { SessionStore } from "../state/session-store";
import { Conversation, lazyParts } from "./Conversation";

test("the code of messages is loaded while a session is opened, before a message is there", async () => {
  const nothing = () => undefined;
  vi.stubGlobal("fetch", () => new Promise(nothing));
  const root = createRoot(document.body);
  root.render(
    <Conversation
      store={new SessionStore("s", new SessionLink("s"))}
      commands={{ run: nothing, paste: nothing, buffer: () => "" }}
      takesFocus={false}
      focused={nothing}
    />,
  );
  expect(lazyParts.loaded).toBeUndefined();
  await vi.waitUntil(() => lazyParts.loaded, { timeout: 10_000 });
  root.unmount();
  vi.unstubAllGlobals();
});
