/** Hooks through which components use the list of sessions. */
import { useCallback, useMemo, useSyncExternalStore } from "react";
import {
  openTitle,
  parkedState,
  type SessionList,
  type WaitingSession,
  waitingSessions,
} from "../state/session-list";
import type { SessionStore } from "../state/session-store";
import type { SessionState } from "../wire";

/** Title of an open session; the same in its tab, in the list and in the browser's title. */
export function useTitle(list: SessionList, store: SessionStore): string {
  const view = useSyncExternalStore(list.subscribe, list.snapshot);
  return useSyncExternalStore(store.subscribe, () => openTitle(view, store));
}

/** State of an open session that has no connection of its own. */
export function useParkedState(list: SessionList, store: SessionStore): SessionState | undefined {
  const view = useSyncExternalStore(list.subscribe, list.snapshot);
  return useSyncExternalStore(store.subscribe, () => parkedState(view, store));
}

/** Sessions that wait for an answer, also those that are not open here. */
export function useWaiting(list: SessionList, open: readonly SessionStore[]): readonly WaitingSession[] {
  const view = useSyncExternalStore(list.subscribe, list.snapshot);
  const subscribe = useCallback(
    (listener: () => void) => {
      const ends = open.map((store) => store.subscribe(listener));
      return () => {
        for (const end of ends) end();
      };
    },
    [open],
  );
  // A string, because the stores change with every message.
  const found = useSyncExternalStore(subscribe, () => JSON.stringify(waitingSessions(view, open)));
  return useMemo(() => JSON.parse(found) as WaitingSession[], [found]);
}
