/** Tabs of the open sessions, with title, host and state. */
import { type KeyboardEvent, useCallback, useEffect, useRef, useState, type WheelEvent } from "react";
import { isWaiting, type SessionList } from "../state/session-list";
import type { SessionStore, SessionView } from "../state/session-store";
import type { Sessions, Tabs } from "../state/sessions";
import { hostLabel, shortHostLabel } from "../text/labels";
import type { SessionState } from "../wire";
import { useSessionPart } from "./hooks";
import { Icon } from "./icons";
import { useParkedState, useTitle } from "./list-hooks";
import { useMachine } from "./me";

/** State of a session for its tab, in one word. */
function tone(view: SessionView): string {
  if (view.status.state === "offline") return "offline";
  return isWaiting(view) ? "waiting" : toneOf(view.transcript.phase);
}

function toneOf(state: SessionState): string {
  return state === "idle" || state === "paused" || state === "waiting" ? state : "running";
}

const WORDS: Record<string, string> = {
  offline: "disconnected",
  waiting: "needs approval",
  idle: "idle",
  paused: "paused",
  running: "running",
};

interface Props {
  sessions: Sessions;
  tabs: Tabs;
  list: SessionList;
}

export function TabStrip({ sessions, tabs, list }: Props) {
  const strip = useRef<HTMLDivElement>(null);
  const [hidden, look] = useHiddenEnds(strip, tabs.open);
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
  // A mouse wheel has one direction, and the strip no scroll bar.
  const wheel = ({ deltaX, deltaY }: WheelEvent) => {
    if (deltaX === 0) strip.current?.scrollBy({ left: deltaY });
  };
  return (
    <div
      className={`tabs ${hidden}`}
      role="tablist"
      aria-label="Open sessions"
      ref={strip}
      onKeyDown={keys}
      onScroll={look}
      onWheel={wheel}
    >
      {tabs.open.map((store) => (
        <Tab
          key={store.id}
          store={store}
          active={store === tabs.active}
          reachable={store === (tabs.active ?? tabs.open[0])}
          sessions={sessions}
          list={list}
        />
      ))}
    </div>
  );
}

/** Classes for the ends of the strip that hide tabs, and a function that looks again. */
function useHiddenEnds(
  strip: { readonly current: HTMLElement | null },
  open: readonly SessionStore[],
): [string, () => void] {
  const [hidden, setHidden] = useState("");
  const look = useCallback(() => {
    const { current } = strip;
    if (!current) return;
    const { scrollLeft, scrollWidth, clientWidth } = current;
    const before = scrollLeft > 1 ? "more-before" : "";
    const after = scrollLeft + clientWidth < scrollWidth - 1 ? "more-after" : "";
    setHidden(`${before} ${after}`);
  }, [strip]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another number of tabs needs another look
  useEffect(() => {
    look();
    const { current } = strip;
    if (!current || typeof ResizeObserver === "undefined") return;
    const observer = new ResizeObserver(look);
    for (const element of [current, ...current.children]) observer.observe(element);
    return () => observer.disconnect();
  }, [look, strip, open]);
  return [hidden, look];
}

interface TabProps {
  store: SessionStore;
  active: boolean;
  /** True for the one tab that the key Tab reaches. */
  reachable: boolean;
  sessions: Sessions;
  list: SessionList;
}

function Tab({ store, active, reachable, sessions, list }: TabProps) {
  const host = useSessionPart(store, (view) => view.transcript.facts?.host ?? "");
  const machine = useMachine();
  const live = useSessionPart(store, tone);
  const parked = useParkedState(list, store);
  const how = parked === undefined ? live : toneOf(parked);
  const title = useTitle(list, store);
  const tab = useRef<HTMLButtonElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another title may make the tab wider
  useEffect(() => {
    if (!active) return;
    const show = () => tab.current?.scrollIntoView({ inline: "nearest", block: "nearest" });
    show();
    window.addEventListener("resize", show);
    return () => window.removeEventListener("resize", show);
  }, [active, title, host]);
  return (
    <button
      ref={tab}
      type="button"
      className={`tab ${active ? "active" : ""}`}
      role="tab"
      aria-selected={active}
      aria-keyshortcuts="Delete"
      tabIndex={reachable ? 0 : -1}
      title={`${title.slice(0, 200)}${host ? ` on ${hostLabel(host, machine)}` : ""} (${WORDS[how]})`}
      onClick={() => sessions.show(store.id)}
      onAuxClick={(event) => event.button === 1 && sessions.closeTab(store.id)}
    >
      <span className={`dot ${how}`} aria-hidden="true" />
      <span className="name">{title.slice(0, 80)}</span>
      <span className="visually-hidden">, {WORDS[how]}</span>
      {host && host !== "local" && <span className="host">{shortHostLabel(host, machine)}</span>}
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
