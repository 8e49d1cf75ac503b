// @vitest-environment happy-dom
import type { ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Conversation } from "../conversation/Conversation";
import { SessionLink } from "../protocol/session-link";
import { SessionList } from "../state/session-list";
import { SessionStore } from "../state/session-store";
import { ConfirmInput } from "../terminal/ConfirmInput";
import { SearchBox } from "../terminal/SearchBox";
import type { InputConfirmation, TerminalSession } from "../terminal/terminal-session";
import type { TerminalHandle } from "../terminal-api";
import { Sidebar } from "./Sidebar";
import { focusTerminal, terminals } from "./TerminalSide";

const nothing = () => undefined;
const terminal = { onResults: () => nothing, endSearch: nothing } as unknown as TerminalSession;
const sessions = { closeTab: nothing } as unknown as Parameters<typeof Sidebar>[0]["sessions"];
const asking = (focus: "yes" | "no"): InputConfirmation => ({
  text: "rm",
  why: "",
  verb: "Paste",
  focus,
  yes: nothing,
  no: nothing,
});
const commands = { run: nothing, insert: nothing, buffer: () => "" };
let root: Root;

beforeEach(() => {
  vi.stubGlobal("fetch", () => new Promise(nothing));
  root = createRoot(document.body.appendChild(document.createElement("div")));
});
afterEach(() => {
  root.unmount();
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

test.each<[string, string, () => ReactNode]>([
  ["the terminal's search", "Search terminal", () => <SearchBox attached={terminal} onClose={nothing} />],
  ["the confirmation of a paste", "Paste", () => <ConfirmInput asking={asking("yes")} />],
  ["the safer answer to a question", "Cancel", () => <ConfirmInput asking={asking("no")} />],
  [
    "the list over the page",
    "Search sessions",
    () => (
      <Sidebar
        sessions={sessions}
        tabs={{ open: [], active: undefined }}
        list={new SessionList()}
        waiting={new Set()}
        connect={nothing}
        choose={nothing}
        close={nothing}
        over
        asked={1}
      />
    ),
  ],
  [
    "a session that was just opened",
    "Describe a task",
    () => (
      <Conversation
        store={new SessionStore("s", new SessionLink("s"))}
        commands={commands}
        takesFocus
        terminalShown={false}
        focused={nothing}
      />
    ),
  ],
])("%s has the focus before the next key", (_, name, element) => {
  root.render(element());
  const { activeElement } = document;
  expect(activeElement?.getAttribute("aria-label") ?? activeElement?.textContent).toBe(name);
});

test("a terminal takes the focus once it is there, and until then the prompt keeps it", async () => {
  const prompt = document.body.appendChild(document.createElement("textarea"));
  prompt.focus();
  focusTerminal("s");
  expect(document.activeElement).toBe(prompt);
  const focus = vi.fn();
  terminals.set("s", { focus } as unknown as TerminalHandle);
  focusTerminal("s");
  expect(document.activeElement).toBe(document.body);
  await vi.waitUntil(() => focus.mock.calls.length > 0);
  terminals.delete("s");
});
