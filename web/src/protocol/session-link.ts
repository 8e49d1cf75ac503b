/**
 * One session's connection, whichever way it goes: a WebSocket, or server-sent events where that does not get through.
 * It begins again by itself, with what was missed, and passes on every message once and in order.
 */
import type { ClientMessage, ServerMessage, SessionId } from "../wire";
import { sessionPath } from "./api";
import { openEventStream } from "./event-stream";
import { Outbox, type Pending } from "./outbox";
import { hintFor } from "./request-error";
import { Sequencer } from "./sequencer";
import type { Connection, ConnectionEnd, OpenConnection } from "./transport";
import { canOpenWebSocket, openWebSocket } from "./websocket";

/** How a connection is. */
export type LinkState = "connecting" | "open" | "offline";

/** One session's connection. */
export interface Link {
  /** Sends a message. Offline it waits where that is safe; keys for the terminal are never kept for later. */
  send(message: ClientMessage): void;
  /** Every message, once and in order. Returns what ends it. */
  on(listener: (message: ServerMessage) => void): () => void;
  /** How the connection is, at once and whenever it changes. Returns what ends it. */
  onState(listener: (state: LinkState) => void): () => void;
}

/** More about a connection, for people. */
export interface LinkStatus {
  state: LinkState;
  /** Which way it goes, where it goes. */
  kind: Connection["kind"] | undefined;
  /** Why it does not, in one sentence, and what to do. */
  why: string;
  hint: string;
  /** The session is gone or the page may not see it: it is not tried again by itself. */
  final: boolean;
}

/** What a link needs of the world; tests bring their own. */
export interface LinkEnvironment {
  socket: OpenConnection;
  events: OpenConnection;
  /** Whether a socket gets through now. */
  canOpenSocket(id: SessionId): Promise<boolean>;
  /** The status of the session's address; 0 where nobody answers. */
  probe(id: SessionId): Promise<number>;
  now(): number;
  random(): number;
}

/** How long a silent connection is believed in: the server says every 10 s that it lives. */
const SILENCE_MS = 26_000;
/** How often that is looked at. */
const LOOK_MS = 5_000;
/** The waits before it is tried again; the last one is repeated. */
const BACKOFF_MS = [250, 500, 1_000, 2_000, 4_000, 8_000, 15_000] as const;
/** How often in a row a WebSocket may fail where the server answers otherwise, before the other way is taken. */
const SOCKET_FAILURES_MAX = 2;
/** How long a WebSocket that did not get through is not tried again. */
const BLOCKED_MS = 300_000;

/** When a WebSocket last failed where the server answered otherwise. All sessions of the page go the same way. */
let socketBlockedAt = Number.NEGATIVE_INFINITY;

export class SessionLink implements Link {
  readonly id: SessionId;
  private readonly world: LinkEnvironment;
  private readonly sequencer = new Sequencer();
  private readonly outbox: Outbox;
  private readonly listeners = new Set<(message: ServerMessage) => void>();
  private readonly stateListeners = new Set<(state: LinkState) => void>();
  private readonly statusListeners = new Set<() => void>();
  private connection: Connection | undefined;
  /** Counts the connections, so that a late word of an earlier one is known for what it is. */
  private number = 0;
  private attempts = 0;
  private socketFailures = 0;
  private heardAt = 0;
  /** The end of the history when this connection began; nothing is sent before it is here. */
  private historyEnd = Number.POSITIVE_INFINITY;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private looking: ReturnType<typeof setInterval> | undefined;
  private closed = false;
  status: LinkStatus = { state: "connecting", kind: undefined, why: "", hint: "", final: false };
  pending: readonly Pending[];

  constructor(id: SessionId, kept: readonly Pending[] = [], world: LinkEnvironment = browserEnvironment) {
    this.id = id;
    this.world = world;
    this.outbox = new Outbox(kept);
    this.pending = this.outbox.pending;
  }

  /** Begins, and goes on until `close`. */
  open(): void {
    this.looking = setInterval(this.look, LOOK_MS);
    if (typeof window !== "undefined") {
      window.addEventListener("online", this.wake);
      document.addEventListener("visibilitychange", this.wake);
    }
    this.connect();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
    clearInterval(this.looking);
    if (typeof window !== "undefined") {
      window.removeEventListener("online", this.wake);
      document.removeEventListener("visibilitychange", this.wake);
    }
    this.connection?.close();
    this.connection = undefined;
  }

  send(message: ClientMessage): void {
    if (message.type === "user.message") {
      const messageId = message.messageId ?? newId();
      this.outbox.add(message.content, messageId, this.sequencer.complete, message.images);
      this.flush();
      return;
    }
    if (this.status.state === "open") this.connection?.send(message);
  }

  /** Takes a prompt back that did not get through yet. */
  takeBack(messageId: string): string | undefined {
    const found = this.outbox.remove(messageId);
    if (found) this.changedPending();
    return found?.content;
  }

  on(listener: (message: ServerMessage) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  onState(listener: (state: LinkState) => void): () => void {
    this.stateListeners.add(listener);
    listener(this.status.state);
    return () => this.stateListeners.delete(listener);
  }

  /** Whenever `status` or `pending` is another one. */
  onStatus(listener: () => void): () => void {
    this.statusListeners.add(listener);
    return () => this.statusListeners.delete(listener);
  }

  /** Tries at once, as the person wants it. */
  readonly again = (): void => {
    if (this.closed || this.connection) return;
    this.attempts = 0;
    this.connect();
  };

  private connect(): void {
    clearTimeout(this.retry);
    if (this.closed) return;
    this.number += 1;
    const number = this.number;
    this.heardAt = this.world.now();
    this.historyEnd = Number.POSITIVE_INFINITY;
    this.sequencer.reconnected();
    const blocked = this.world.now() - socketBlockedAt < BLOCKED_MS;
    const open = blocked ? this.world.events : this.world.socket;
    if (this.status.state !== "offline") this.become({ ...this.status, state: "connecting" });
    this.connection = open(this.id, this.sequencer.complete, {
      message: (message) => {
        if (number === this.number) this.take(message);
      },
      alive: () => {
        if (number === this.number) this.heardAt = this.world.now();
      },
      again: () => {
        if (number === this.number) this.sequencer.reconnected();
      },
      ended: (ended) => {
        if (number === this.number) void this.ended(ended);
      },
    });
  }

  private take(message: ServerMessage): void {
    this.heardAt = this.world.now();
    if (message.type === "heartbeat") return;
    switch (this.sequencer.judge(message)) {
      case "drop":
        return;
      case "gap":
        this.drop();
        this.connect();
        return;
      case "take":
        break;
    }
    if (message.type === "session.created" && message.seq === undefined) {
      this.historyEnd = message.lastSeq ?? 0;
      this.attempts = 0;
      if (this.connection?.kind === "socket") this.socketFailures = 0;
      this.become({ state: "open", kind: this.connection?.kind, why: "", hint: "", final: false });
    }
    if (this.outbox.saw(message)) this.changedPending();
    if (message.type === "error" && message.replyTo) this.refused(message.replyTo);
    for (const listener of [...this.listeners]) listener(message);
    this.flush();
  }

  /** Sends what waits, once it is known what of it the log has. */
  private flush(): void {
    if (this.status.state === "open" && this.sequencer.complete >= this.historyEnd) {
      for (const { content, messageId, images } of this.outbox.due(this.number)) {
        this.connection?.send({ type: "user.message", content, messageId, ...(images && { images }) });
      }
    }
    this.changedPending();
  }

  private refused(messageId: string): void {
    const found = this.outbox.remove(messageId);
    if (!found) return;
    this.changedPending();
    for (const listener of this.refusedListeners) listener(found);
  }

  private readonly refusedListeners = new Set<(pending: Pending) => void>();

  /** A prompt that the server did not take: it goes back to where it was written. */
  onRefused(listener: (pending: Pending) => void): () => void {
    this.refusedListeners.add(listener);
    return () => this.refusedListeners.delete(listener);
  }

  private drop(): void {
    this.number += 1;
    this.connection?.close();
    this.connection = undefined;
  }

  private async ended(ended: ConnectionEnd): Promise<void> {
    const kind = this.connection?.kind;
    this.drop();
    const number = this.number;
    if (this.status.state === "open") this.become({ ...this.status, state: "connecting", kind: undefined });
    let status = ended.status;
    if (!ended.worked && status === undefined) status = await this.world.probe(this.id);
    if (this.closed || number !== this.number || this.connection) return;
    if (status === 401 || status === 404) return this.give(status);
    if (status === 200 && kind === "socket") {
      // The server is there and its socket is not: something on the way lets no WebSocket through.
      // What swallows them takes its time over each, so one is enough.
      this.socketFailures += ended.late ? SOCKET_FAILURES_MAX : 1;
      if (this.socketFailures >= SOCKET_FAILURES_MAX) socketBlockedAt = this.world.now();
      this.connect();
      return;
    }
    const lost = this.attempts > 0 || !ended.worked;
    const wait = BACKOFF_MS[Math.min(this.attempts, BACKOFF_MS.length - 1)] ?? 15_000;
    this.attempts += 1;
    if (lost) {
      const why = ended.why ?? (status ? `the server returned ${status}` : "no response from the server");
      this.become({ state: "offline", kind: undefined, why, hint: hintFor(status ?? 0, ""), final: false });
    }
    this.retry = setTimeout(() => this.connect(), wait * (0.7 + 0.6 * this.world.random()));
  }

  private give(status: 401 | 404): void {
    const [why, hint] =
      status === 401
        ? ["access denied", hintFor(401, "unauthorized")]
        : ["the session was deleted", hintFor(404, "no_session")];
    this.become({ state: "offline", kind: undefined, why, hint, final: true });
  }

  /** A connection that died without a word is not believed in for ever. */
  private readonly look = (): void => {
    const now = this.world.now();
    const silent = this.connection?.kind === "socket" && now - this.heardAt >= SILENCE_MS;
    if (silent) this.begin();
    else if (this.connection?.kind === "events" && now - socketBlockedAt >= BLOCKED_MS)
      void this.tryWebSocket();
  };

  /** What works is not given up for what may not: a socket is tried beside it. */
  private async tryWebSocket(): Promise<void> {
    const number = this.number;
    socketBlockedAt = this.world.now();
    if (!(await this.world.canOpenSocket(this.id))) return;
    socketBlockedAt = Number.NEGATIVE_INFINITY;
    if (!this.closed && number === this.number) this.begin();
  }

  /** Ends the connection and opens another. */
  private begin(): void {
    this.drop();
    this.become({ ...this.status, state: "connecting", kind: undefined });
    this.connect();
  }

  /** The network is back, or somebody looks again: what waited need not wait longer. */
  private readonly wake = (): void => {
    if (document.visibilityState === "hidden") return;
    if (!this.connection) {
      if (this.status.final && this.status.why.includes("was deleted")) return;
      this.again();
    } else this.look();
  };

  private become(status: LinkStatus): void {
    const before = this.status.state;
    this.status = status;
    if (before !== status.state) for (const listener of [...this.stateListeners]) listener(status.state);
    for (const listener of [...this.statusListeners]) listener();
  }

  private changedPending(): void {
    if (this.pending === this.outbox.pending) return;
    this.pending = this.outbox.pending;
    for (const listener of [...this.statusListeners]) listener();
  }
}

let ids = 0;
const page = Math.random().toString(36).slice(2, 10);

/** A name for a message that no other has. */
export function newId(): string {
  ids += 1;
  return `page-${page}-${Date.now().toString(36)}-${ids}`;
}

/** Forgets what was learned of the way; for tests. */
export function resetSocketBlock(): void {
  socketBlockedAt = Number.NEGATIVE_INFINITY;
}

const browserEnvironment: LinkEnvironment = {
  socket: openWebSocket,
  events: openEventStream,
  canOpenSocket: canOpenWebSocket,
  probe: async (id) => {
    try {
      const path = sessionPath(id);
      return (await fetch(path, { credentials: "same-origin", signal: AbortSignal.timeout(6_000) })).status;
    } catch {
      return 0;
    }
  },
  now: () => performance.now(),
  random: () => Math.random(),
};
