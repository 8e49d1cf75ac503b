// @vitest-environment happy-dom
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SessionLink } from "../protocol/session-link";
import { SessionStore, type SessionView } from "../state/session-store";
import { emptyTranscript, type Transcript } from "../state/transcript";
import { SETTLES_MS, Toolbar } from "./Toolbar";

let root: Root;
let store: SessionStore;
let now = 0;

beforeEach(() => {
  vi.stubGlobal("fetch", () => new Promise(() => undefined));
  vi.spyOn(performance, "now").mockImplementation(() => now);
  store = new SessionStore("s", new SessionLink("s"));
  root = createRoot(document.body.appendChild(document.createElement("div")));
});
afterEach(() => {
  root.unmount();
  document.body.replaceChildren();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const button = (name: string) =>
  [...document.querySelectorAll("button")].find(({ textContent }) => textContent?.trim() === name);

async function draw(phase: Transcript["phase"], shown: string): Promise<HTMLButtonElement> {
  const view: SessionView = {
    ...store.snapshot(),
    transcript: { ...emptyTranscript, phase, lastPrompt: "x" },
    status: { ...store.snapshot().status, state: "open" },
  };
  root.render(<Toolbar store={store} view={view} done={() => undefined} />);
  return (await vi.waitUntil(() => button(shown), { timeout: 10_000 })) as HTMLButtonElement;
}

test("the closed list of models shows a name alone, and the open one its provider", async () => {
  const models = ["openai/gpt-9", "router/maker/gpt-9", "openai/tiny"];
  vi.stubGlobal("fetch", async () => Response.json({ models }));
  await draw("idle", "New chat");
  const groups = () =>
    [...document.querySelectorAll("optgroup")].map(({ label, children }) => {
      const options = [...children] as HTMLOptionElement[];
      return [label, ...options.map(({ textContent, value }) => `${textContent}: ${value}`)];
    });
  await vi.waitUntil(() => groups().length > 0, { timeout: 10_000 });
  expect(groups()).toEqual([
    ["openai", "gpt-9: openai/gpt-9", "tiny: openai/tiny"],
    ["router/maker", "gpt-9: router/maker/gpt-9"],
  ]);
});

test("a second click on Stop does not clear what Stop has ended", async () => {
  const newChat = vi.spyOn(store, "newChat");
  await draw("running", "Stop");
  now = 10_000;
  const fresh = await draw("idle", "New chat");
  now += SETTLES_MS - 1;
  fresh.click();
  expect(newChat).not.toHaveBeenCalled();
  now += 1;
  fresh.click();
  expect(newChat).toHaveBeenCalledOnce();
});

test("a new chat is begun at once in a session that was idle when it was opened", async () => {
  const newChat = vi.spyOn(store, "newChat");
  (await draw("idle", "New chat")).click();
  expect(newChat).toHaveBeenCalledOnce();
});
