/** The sessions that are open, one tab each: its host and what it does. */
import { type KeyboardEvent, useRef } from "react";
import type { Sessions, Tabs } from "../state/sessions";
import type { SessionStore, View } from "../state/store";
import { waitingStep } from "../state/transcript";
import { oneLine } from "../text/neutralise";
import { place, shortPlace } from "../text/words";
import { Icon } from "./icons";
import { usePart } from "./use";

/** What a tab says of its session, in one word. */
function tone(view: View): string {
  if (view.status.state === "offline") return "offline";
  if (waitingStep(view.transcript) || view.transcript.questions.length > 0) return "waiting";
  const { phase } = view.transcript;
  return phase === "idle" ? "idle" : phase === "paused" ? "paused" : "running";
}

const WORDS: Record<string, string> = {
  offline: "no connection",
  waiting: "waits for an answer",
  idle: "idle",
  paused: "paused",
  running: "runs",
};

export function TabStrip({ sessions, tabs }: { sessions: Sessions; tabs: Tabs }) {
  const strip = useRef<HTMLDivElement>(null);
  const keys = (event: KeyboardEvent) => {
    const at = tabs.active ? tabs.open.indexOf(tabs.active) : -1;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.open.length - 1 }[event.key];
    if (event.key === "Delete" && tabs.active) {
      event.preventDefault();
      sessions.putAway(tabs.active.id);
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
  const host = usePart(store, (view) => view.transcript.facts?.host ?? "");
  const how = usePart(store, tone);
  const title = usePart(store, (view) => view.transcript.lastPrompt ?? "");
  const name = host ? shortPlace(host) : "…";
  return (
    <button
      type="button"
      className={`tab ${active ? "active" : ""}`}
      role="tab"
      aria-selected={active}
      aria-keyshortcuts="Delete"
      tabIndex={active ? 0 : -1}
      title={`${host ? place(host) : ""}${title ? `: ${oneLine(title).slice(0, 200)}` : ""} (${WORDS[how]})`}
      onClick={() => sessions.show(store.id)}
      onAuxClick={(event) => event.button === 1 && sessions.putAway(store.id)}
    >
      <span className={`dot ${how}`} aria-hidden="true" />
      <span className="name">{name}</span>
      <span className="visually-hidden">, {WORDS[how]}</span>
      {title && <span className="title">{oneLine(title).slice(0, 60)}</span>}
      {/* For pointers; a keyboard has Delete. Buttons do not stand in buttons, nor beside tabs in their list. */}
      <span
        className="close"
        aria-hidden="true"
        title="Close the tab (Delete); the session lives on"
        onClick={(event) => {
          event.stopPropagation();
          sessions.putAway(store.id);
        }}
      >
        <Icon name="close" />
      </span>
    </button>
  );
}
