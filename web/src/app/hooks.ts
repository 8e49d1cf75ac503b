/** What components use of the stores. */
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { SessionStore, SessionView } from "../state/session-store";

export function useSessionView(store: SessionStore): SessionView {
  return useSyncExternalStore(store.subscribe, store.snapshot);
}

/** A part of what is known of a session; the component is drawn again only when this part is another one. */
export function useSessionPart<T>(store: SessionStore, part: (view: SessionView) => T): T {
  return useSyncExternalStore(store.subscribe, () => part(store.snapshot()));
}

/** Whether the window is as this says. */
export function useMedia(query: string): boolean {
  const [matches, become] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const changed = () => become(media.matches);
    changed();
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [query]);
  return matches;
}

const TICK_MS = 1_000;

/** The time in milliseconds since 1970; the component is drawn again each second while `ticks`. */
export function useNow(ticks: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!ticks) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [ticks]);
  return now;
}

/** The value that it had when this was drawn last. */
export function useLatest<T>(value: T): { readonly current: T } {
  const latest = useRef(value);
  latest.current = value;
  return latest;
}
