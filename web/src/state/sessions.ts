/** Sessions open in this browser tab, and the selected one. */
import type { SessionId } from "../wire";
import { SessionStore } from "./session-store";
import * as storage from "./storage";

export interface Tabs {
  open: readonly SessionStore[];
  active: SessionStore | undefined;
}

/** Returns the session named by a URL. */
export function sessionOfHash(hash: string): SessionId | undefined {
  const found = /^#\/s\/([^/?#]+)$/.exec(hash);
  try {
    return found?.[1] ? decodeURIComponent(found[1]) : undefined;
  } catch {
    return undefined;
  }
}

function hashOf({ id }: SessionStore): string {
  return `#/s/${encodeURIComponent(id)}`;
}

/** State of the entries of the browser's history that this page wrote; an address that the user enters has none. */
const VISITED = "visited";

export class Sessions {
  private tabs: Tabs = { open: [], active: undefined };
  private readonly listeners = new Set<() => void>();
  /** Sessions whose tab was closed, or that were deleted; Back does not open them again. */
  private readonly closed = new Set<SessionId>();

  /** Opens the session named by the URL, and those open before a reload. */
  start(): void {
    const wanted = sessionOfHash(location.hash);
    const kept = storage.openTabs();
    for (const id of wanted && !kept.includes(wanted) ? [...kept, wanted] : kept) this.add(id);
    const active = this.tabs.open.find(({ id }) => id === wanted) ?? this.tabs.open.at(-1);
    this.become({ ...this.tabs, active });
    // Back and Forward, and an address that the user edits.
    window.addEventListener("popstate", this.followHash);
    window.addEventListener("hashchange", this.followHash);
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): Tabs => this.tabs;

  /** Selects a session, and opens it if necessary. Back returns to what was shown before. */
  readonly show = (id: SessionId): void => {
    const active = this.tabs.open.find((store) => store.id === id) ?? this.add(id);
    if (active !== this.tabs.active) history.pushState(VISITED, "", hashOf(active));
    this.become({ ...this.tabs, active });
  };

  /** Closes a session's tab; the session keeps running. */
  readonly closeTab = (id: SessionId): void => {
    this.closed.add(id);
    const at = this.tabs.open.findIndex((store) => store.id === id);
    const gone = this.tabs.open[at];
    if (!gone) return;
    gone.close();
    const open = this.tabs.open.filter((store) => store !== gone);
    const next = open[Math.min(at, open.length - 1)];
    this.become({ open, active: this.tabs.active === gone ? next : this.tabs.active });
  };

  private add(id: SessionId): SessionStore {
    const store = new SessionStore(id);
    store.open();
    this.closed.delete(id);
    this.tabs = { ...this.tabs, open: [...this.tabs.open, store] };
    return store;
  }

  /** Shows the session of the address, or the start screen, and keeps the tabs. */
  private readonly followHash = (): void => {
    const id = sessionOfHash(location.hash);
    // Other addresses are of elements of the page.
    if (id === this.tabs.active?.id || (id === undefined && location.hash !== "")) return;
    // An entry that led to a closed session becomes one of the session that is shown.
    if (id && this.closed.has(id) && history.state === VISITED) return this.become(this.tabs);
    const active = id && (this.tabs.open.find((store) => store.id === id) ?? this.add(id));
    this.become({ ...this.tabs, active: active || undefined });
  };

  private become(tabs: Tabs): void {
    this.tabs = tabs;
    tabs.active?.link.show();
    storage.saveOpenTabs(tabs.open.map(({ id }) => id));
    const hash = tabs.active ? hashOf(tabs.active) : "";
    if (location.hash !== hash) history.replaceState(VISITED, "", hash || location.pathname);
    else if (history.state !== VISITED) history.replaceState(VISITED, "");
    for (const listener of [...this.listeners]) listener();
  }
}

export const sessions = new Sessions();
