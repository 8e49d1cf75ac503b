/** Tabs of the open sessions, with host and state. */
import { type KeyboardEvent, useEffect, useRef } from "react";
import type { SessionStore, SessionView } from "../state/session-store";
import type { Sessions, Tabs } from "../state/sessions";
import { pendingApproval } from "../state/transcript";
import { hostLabel, shortHostLabel } from "../text/labels";
import { oneLine } from "../text/neutralize";
import { useSessionPart } from "./hooks";
import { Icon } from "./icons";

/** State of a session for its tab, in one word. */
function tone(view: SessionView): string {
  if (view.status.state === "offline") return "offline";
  if (pendingApproval(view.transcript) || view.transcript.questions.length > 0) return "waiting";
  const { phase } = view.transcript;
  return phase === "idle" ? "idle" : phase === "paused" ? "paused" : "running";
}

const WORDS: Record<string, string> = {
  offline: "disconnected",
  waiting: "needs approval",
  idle: "idle",
  paused: "paused",
  running: "running",
};

export function TabStrip({ sessions, tabs }: { sessions: Sessions; tabs: Tabs }) {
  const strip = useRef<HTMLDivElement>(null);
  const keys = (event: KeyboardEvent) => {
    const at = tabs.active ? tabs.open.indexOf(tabs.active) : -1;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.open.length - 1 }[event.key];
    if (event.key === "Delete" && tabs.active) {
      event.preventDefault();
      sessions.closeTab(tabs.active.id);
      return;
    }
    const next = to === undefined ? undefined : tabs.open[to];
    if (!next) return;
    event.preventDefault();
    sessions.show(next.id);
    strip.current?.querySelectorAll<HTMLElement>("[role=tab]")[tabs.open.indexOf(next)]?.focus();
  };
  return (
    <div className="tabs" role="tablist" aria-label="Open sessions" ref={strip} onKeyDown={keys}>
      {tabs.open.map((store) => (
        <Tab key={store.id} store={store} active={store === tabs.active} sessions={sessions} />
      ))}
    </div>
  );
}

function Tab({ store, active, sessions }: { store: SessionStore; active: boolean; sessions: Sessions }) {
  const host = useSessionPart(store, (view) => view.transcript.facts?.host ?? "");
  const how = useSessionPart(store, tone);
  const title = useSessionPart(store, (view) => view.transcript.lastPrompt ?? "");
  const name = host ? shortHostLabel(host) : "…";
  const tab = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!active) return;
    const show = () => tab.current?.scrollIntoView({ inline: "nearest", block: "nearest" });
    show();
    window.addEventListener("resize", show);
    return () => window.removeEventListener("resize", show);
  }, [active]);
  return (
    <button
      ref={tab}
      type="button"
      className={`tab ${active ? "active" : ""}`}
      role="tab"
      aria-selected={active}
      aria-keyshortcuts="Delete"
      tabIndex={active ? 0 : -1}
      title={`${host ? hostLabel(host) : ""}${title ? `: ${oneLine(title).slice(0, 200)}` : ""} (${WORDS[how]})`}
      onClick={() => sessions.show(store.id)}
      onAuxClick={(event) => event.button === 1 && sessions.closeTab(store.id)}
    >
      <span className={`dot ${how}`} aria-hidden="true" />
      <span className="name">{name}</span>
      <span className="visually-hidden">, {WORDS[how]}</span>
      {title && <span className="title">{oneLine(title).slice(0, 60)}</span>}
      {/* For pointers; a keyboard has Delete. Buttons do not stand in buttons, nor beside tabs in their list. */}
      <span
        className="close"
        aria-hidden="true"
        title="Close tab (Delete). The session keeps running."
        onClick={(event) => {
          event.stopPropagation();
          sessions.closeTab(store.id);
        }}
      >
        <Icon name="close" />
      </span>
    </button>
  );
}
