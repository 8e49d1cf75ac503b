/** Hooks through which components use the stores. */
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { SessionStore, SessionView } from "../state/session-store";

export function useSessionView(store: SessionStore): SessionView {
  return useSyncExternalStore(store.subscribe, store.snapshot);
}

/** Selects a part of a session's view; the component renders again only when that part changes. */
export function useSessionPart<T>(store: SessionStore, part: (view: SessionView) => T): T {
  return useSyncExternalStore(store.subscribe, () => part(store.snapshot()));
}

/** Returns true if the media query matches. */
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

/** Returns the time in milliseconds since 1970; the component renders every second while `ticks`. */
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

/** Returns a ref that holds the value of the last render. */
export function useLatest<T>(value: T): { readonly current: T } {
  const latest = useRef(value);
  latest.current = value;
  return latest;
}
