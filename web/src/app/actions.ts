/** Commands of the palette: for the page, for the current session, and for the other sessions. */
import type { Me } from "../protocol/api";
import type { SessionList } from "../state/session-list";
import type { SessionStore } from "../state/session-store";
import type { Sessions, Tabs } from "../state/sessions";
import type { ApprovalMode } from "../wire";
import type { PageAction } from "./CommandPalette";
import { GUIDE_URL } from "./HelpDialog";
import type { OpenDialog } from "./page-keys";
import type { PreferenceActions } from "./preferences";

interface Page {
  sessions: Sessions;
  tabs: Tabs;
  sessionList: SessionList;
  me: Me | undefined;
  set: PreferenceActions;
  open(dialog: OpenDialog): void;
  list(listed: boolean): void;
  toggleTerminal(): void;
}

const MODES: readonly [ApprovalMode, string][] = [
  ["each", "ask before every command"],
  ["ask", "ask before changes"],
  ["auto", "ask before dangerous commands"],
  ["never", "read-only"],
];

export function pageActions(page: Page): PageAction[] {
  const { sessions, tabs, me, set, open, list, toggleTerminal } = page;
  const { active } = tabs;
  const watches = me !== undefined && !me.operate && !me.decide;
  return [
    // The first one is selected when the palette opens, so it only opens a dialog or a list.
    ...(me && !me.operate ? [] : [{ name: "New session", keys: "Alt+N", run: () => open("connect") }]),
    { name: "List and search sessions", keys: "Alt+S", run: () => list(true) },
    ...(active && !watches ? sessionActions(active) : []),
    ...(active
      ? [
          {
            name: "Find in this conversation",
            keys: "Ctrl+F",
            run: () => active.find({ words: "", ofList: false }),
          },
          { name: "Allowed for this session…", detail: "/permissions", run: () => open("grants") },
        ]
      : []),
    ...(active
      ? [
          {
            name: `Show or hide the ${active.snapshot().transcript.facts?.host.includes(",") ? "hosts" : "terminal"}`,
            keys: "Alt+T",
            run: toggleTerminal,
          },
          { name: "Hide messages", detail: "in this tab only", run: () => active.clearView() },
          { name: "Close tab", detail: "the session keeps running", run: () => sessions.closeTab(active.id) },
        ]
      : []),
    ...tabs.open
      .filter((store) => store !== active)
      .map((store) => ({
        name: `Go to ${page.sessionList.titleOf(store).slice(0, 60)}`,
        detail: hostDetail(store.snapshot().transcript.facts?.host ?? "", page),
        run: () => sessions.show(store.id),
      })),
    ...(page.sessionList.snapshot().rows ?? [])
      .filter(({ sessionId }) => !tabs.open.some(({ id }) => id === sessionId))
      .map((row) => ({
        name: `Open ${page.sessionList.titleOfRow(row).slice(0, 60)}`,
        detail: hostDetail(row.host, page),
        run: () => sessions.show(row.sessionId),
      })),
    { name: "Settings", keys: "Ctrl+,", run: () => open("settings") },
    { name: "Keyboard shortcuts", detail: "help", keys: "?", run: () => open("help") },
    {
      name: "User guide",
      detail: "help, opens in a new tab",
      run: () => void window.open(GUIDE_URL, "_blank", "noopener"),
    },
    { name: "Theme: system", run: () => set.setTheme("system") },
    { name: "Theme: light", run: () => set.setTheme("light") },
    { name: "Theme: dark", run: () => set.setTheme("dark") },
    ...(me?.operate
      ? [
          { name: "Link a device", detail: "QR code", run: () => open("link") },
          { name: "Share read-only", detail: "link", run: () => open("share") },
        ]
      : []),
  ];
}

function hostDetail(host: string, { me, sessionList }: Page): string {
  return host && sessionList.hostLabel(host, me?.server?.machine);
}

function sessionActions(store: SessionStore): PageAction[] {
  const { transcript, mode } = store.snapshot();
  const { phase, lastPrompt, facts } = transcript;
  const running = phase !== "idle";
  const chat = mode === "chat";
  const actions: (PageAction | false)[] = [
    running &&
      phase !== "paused" && { name: "Pause after this step", keys: "Alt+P", run: () => store.pause() },
    phase === "paused" && { name: "Resume", keys: "Alt+P", run: () => store.resume() },
    running && { name: "Stop", run: () => store.stop() },
    !running &&
      lastPrompt !== undefined && {
        name: "Retry without history",
        detail: "the last prompt",
        run: () => store.retry(),
      },
    !running && { name: "New chat", detail: "in this session", run: () => store.newChat() },
    !running && { name: "Compact the context", detail: "/compact", run: () => store.say("/compact") },
    {
      name: chat ? "Switch to agent mode" : "Switch to chat mode",
      detail: chat ? "with tools" : "no tools",
      run: () => store.setMode(chat ? "agent" : "chat"),
    },
    ...MODES.filter(([word]) => facts && facts.approve !== word).map(([word, means]) => ({
      name: `Approval mode: ${word}`,
      detail: means,
      run: () => store.configure({ approve: word }),
    })),
  ];
  return actions.filter((action) => action !== false);
}
