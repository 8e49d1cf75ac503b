/** The server's sessions, as of the last request: for the list, for titles, and for what waits in other sessions. */
import { listSessions, type SessionRow } from "../protocol/api";
import { RequestError } from "../protocol/request-error";
import { hostLabel } from "../text/labels";
import { oneLine } from "../text/neutralize";
import type { SessionId, SessionState } from "../wire";
import type { Item } from "./item";
import type { SessionStore, SessionView } from "./session-store";
import { pendingApproval } from "./transcript";

/** Time between two requests, in milliseconds. */
const EVERY_MS = 10_000;
/** The same while the page is hidden: only its title shows what waits. */
const HIDDEN_MS = 60_000;
/** Sessions to request while the list itself is not shown, the last changed first. Older ones are not counted. */
const NEWEST = 100;

/** Title of a session without a name, a prompt and a command. */
export const UNTITLED = "New session";

export interface ListView {
  /** Undefined until the server answers. */
  rows: readonly SessionRow[] | undefined;
  problem: RequestError | undefined;
}

/** A session that waits for an answer of the user. */
export interface WaitingSession {
  id: SessionId;
  title: string;
}

export class SessionList {
  private view: ListView = { rows: undefined, problem: undefined };
  private readonly listeners = new Set<() => void>();
  /** Number of the latest request. */
  private latest = 0;
  /** Number of the request whose answer is shown; answers to earlier ones are dropped. */
  private shown = 0;
  /** Number of requests without an answer. */
  private underWay = 0;
  /** Time of the latest request, in milliseconds since 1970. */
  private asked = 0;
  /** Number of components that show all sessions. */
  private readers = 0;

  /** Requests the list now and then, unless a request is under way. Returns a function that ends this. */
  follow(): () => void {
    const look = () => {
      if (this.underWay > 0) return;
      if (document.visibilityState === "visible" || Date.now() - this.asked >= HIDDEN_MS) void this.refresh();
    };
    look();
    const timer = setInterval(look, EVERY_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }

  /** Requests all sessions instead of the newest ones. Returns a function that ends this. */
  readAll(): () => void {
    this.readers += 1;
    void this.refresh();
    return () => {
      this.readers -= 1;
    };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): ListView => this.view;

  /** Title of an open session; see `openTitle`. */
  titleOf(store: SessionStore): string {
    return openTitle(this.view, store);
  }

  /** For code that is loaded apart: an import of `titleOf` there would split the page's script. */
  titleOfRow(row: SessionRow): string {
    return titleOf(row);
  }

  /** As above. */
  hostLabel(host: string, machine: string | undefined): string {
    return hostLabel(host, machine);
  }

  readonly refresh = async (): Promise<void> => {
    this.latest += 1;
    this.underWay += 1;
    const number = this.latest;
    this.asked = Date.now();
    try {
      const rows = await listSessions("", this.readers > 0 ? undefined : NEWEST);
      this.become(number, { rows, problem: undefined });
    } catch (problem) {
      if (problem instanceof RequestError) this.become(number, { ...this.view, problem });
    } finally {
      this.underWay -= 1;
    }
  };

  private become(number: number, view: ListView): void {
    if (number < this.shown) return;
    this.shown = number;
    this.view = view;
    for (const listener of [...this.listeners]) listener();
  }
}

/** True if the session waits for an approval or an answer. */
export function isWaiting({ transcript }: SessionView): boolean {
  return pendingApproval(transcript) !== undefined || transcript.questions.length > 0;
}

/** Title of a row: the name that a user gave, or the first prompt or command. */
export function titleOf({ title }: Pick<SessionRow, "title">): string {
  return oneLine(title) || UNTITLED;
}

function isCommand(item: Item): boolean {
  return item.kind === "step" && item.effect === "command";
}

/**
 * Title of an open session, the same as in the list, or its first prompt before the list has it. A command is a title
 * only in the list, where its secrets are redacted.
 */
export function openTitle({ rows }: ListView, store: SessionStore): string {
  const row = rows?.find(({ sessionId }) => sessionId === store.id);
  if (row?.title) return titleOf(row);
  const { items } = store.snapshot().transcript;
  const first = items.find((item) => item.kind === "prompt" || isCommand(item));
  return titleOf({ title: first?.kind === "prompt" ? first.text : "" });
}

/** State of an open session without a connection, which the list tells as of its last request. */
export function parkedState({ rows }: ListView, { id, snapshot }: SessionStore): SessionState | undefined {
  if (snapshot().status.state !== "parked") return undefined;
  return rows?.find(({ sessionId }) => sessionId === id)?.state;
}

/** Sessions that wait, in the order of the list. The state of a connected session comes from its own connection. */
export function waitingSessions(list: ListView, open: readonly SessionStore[]): WaitingSession[] {
  const live = open.filter((store) => {
    const { caughtUp, status } = store.snapshot();
    return caughtUp && status.state !== "parked";
  });
  const liveIds = new Set(live.map(({ id }) => id));
  const here = live.filter((store) => isWaiting(store.snapshot()));
  const rows = (list.rows ?? []).filter(({ sessionId, state }) =>
    liveIds.has(sessionId) ? here.some(({ id }) => id === sessionId) : state === "waiting",
  );
  const unlisted = here.filter(({ id }) => !rows.some(({ sessionId }) => sessionId === id));
  return [
    ...unlisted.map((store) => ({ id: store.id, title: openTitle(list, store) })),
    ...rows.map((row) => {
      const store = here.find(({ id }) => id === row.sessionId);
      return { id: row.sessionId, title: store ? openTitle(list, store) : titleOf(row) };
    }),
  ];
}

export const sessionList = new SessionList();
