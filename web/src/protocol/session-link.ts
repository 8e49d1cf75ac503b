/**
 * Connection of one session: a WebSocket, or server-sent events if WebSockets are blocked. It reconnects automatically,
 * catches up, and delivers every message once and in order.
 */
import type { ClientMessage, ServerMessage, SessionId } from "../wire";
import { sessionPath } from "./api";
import { openEventStream } from "./event-stream";
import { Outbox, type Pending, type QueuedPrompt } from "./outbox";
import { DELETED, hintFor, NO_SESSION, SIGNED_OUT } from "./request-error";
import { Sequencer } from "./sequencer";
import type { Connection, ConnectionEnd, OpenConnection } from "./transport";
import { canOpenWebSocket, openWebSocket } from "./websocket";

/** Status of a connection; a `parked` link has none, so that sessions in view can have theirs. */
export type LinkState = "connecting" | "open" | "offline" | "parked";

/** Connection of one session. */
export interface Link {
  /** Sends a message. While offline, messages are queued if that is safe; terminal keys never are. */
  send(message: ClientMessage): void;
  /** Subscribes to messages, once each and in order. Returns a function that unsubscribes. */
  on(listener: (message: ServerMessage) => void): () => void;
  /** Reports the status now and on every change. Returns a function that unsubscribes. */
  onState(listener: (state: LinkState) => void): () => void;
}

/** Reason of a lost connection that the browser itself reports. */
const NO_NETWORK = "this device has no network";

/** Details of a connection, for display. */
export interface LinkStatus {
  state: LinkState;
  /** Transport in use, if connected. */
  kind: Connection["kind"] | undefined;
  /** Reason why it is not connected, in one sentence, and a hint. */
  why: string;
  hint: string;
  /** True if the session no longer exists or access is denied; there is no automatic retry. */
  final: boolean;
}

/** Dependencies of a link; tests inject their own. */
export interface LinkEnvironment {
  socket: OpenConnection;
  events: OpenConnection;
  /** Returns true if a WebSocket can currently connect. */
  canOpenSocket(id: SessionId): Promise<boolean>;
  /** Returns the HTTP status of the session's URL; 0 without an answer. */
  probe(id: SessionId): Promise<number>;
  now(): number;
  random(): number;
}

/** Maximum silence of a connection; the server sends a heartbeat every 10 s. */
const SILENCE_MS = 26_000;
/** Interval between checks for silence. */
const LOOK_MS = 5_000;
/** Delays between attempts; the last one repeats. */
const BACKOFF_MS = [250, 500, 1_000, 2_000, 4_000, 8_000, 15_000] as const;
/** Consecutive WebSocket failures, while HTTP works, before the link falls back to SSE. */
const SOCKET_FAILURES_MAX = 2;
/** Times before a WebSocket that did not open is tried again, at first and then. */
const BLOCKED_MS = [30_000, 300_000] as const;
/**
 * Maximum sessions that follow server-sent events. Over HTTP/1.1, browsers allow 6 connections to a server, and each
 * stream takes one of them from the requests.
 */
const STREAMS_MAX = 2;

/**
 * Missed events from which they are loaded as one stream before the WebSocket is used, because a browser handles each
 * message of a WebSocket apart: on a busy machine with two cores, 35,000 of them took 15 s, as a stream 5 s.
 */
const STREAMED_EVENTS_MIN = 1_000;

/** The last WebSocket failure while HTTP worked, and the retries that failed; shared by all sessions of the page. */
const block = { at: Number.NEGATIVE_INFINITY, retries: 0 };

function blocksSockets(now: number): boolean {
  return now - block.at < BLOCKED_MS[block.retries === 0 ? 0 : 1];
}

function socketFailed(now: number): void {
  // Sessions that fail at the same time are one failure.
  if (Number.isFinite(block.at) && !blocksSockets(now)) block.retries += 1;
  block.at = now;
}

/** Forgets that WebSockets are blocked. */
export function resetSocketBlock(): void {
  block.at = Number.NEGATIVE_INFINITY;
  block.retries = 0;
}

/** Open links of the page, the last shown first. */
let links: readonly SessionLink[] = [];

export class SessionLink implements Link {
  readonly id: SessionId;
  private readonly world: LinkEnvironment;
  private readonly sequencer = new Sequencer();
  private readonly outbox: Outbox;
  private readonly listeners = new Set<(message: ServerMessage) => void>();
  private readonly stateListeners = new Set<(state: LinkState) => void>();
  private readonly statusListeners = new Set<() => void>();
  private connection: Connection | undefined;
  /** Number of the current connection, so that late callbacks of earlier ones are ignored. */
  private number = 0;
  private attempts = 0;
  private socketFailures = 0;
  private heardAt = 0;
  /** End of the history when this connection began; nothing is sent before it has arrived. */
  private historyEnd = Number.POSITIVE_INFINITY;
  /** True while a long history is loaded as a stream. */
  private loading = false;
  /** True if loading failed; the WebSocket then sends the history. */
  private loadingFailed = false;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private looking: ReturnType<typeof setInterval> | undefined;
  private closed = false;
  /** True once the server has shown the session. */
  private known = false;
  status: LinkStatus = { state: "connecting", kind: undefined, why: "", hint: "", final: false };
  pending: readonly Pending[];

  constructor(id: SessionId, kept: readonly Pending[] = [], world: LinkEnvironment = browserEnvironment) {
    this.id = id;
    this.world = world;
    this.outbox = new Outbox(kept);
    this.pending = this.outbox.pending;
  }

  /** Connects, and reconnects until `close`. */
  open(): void {
    links = [...links, this];
    this.looking = setInterval(this.look, LOOK_MS);
    if (typeof window !== "undefined") {
      window.addEventListener("online", this.wake);
      window.addEventListener("offline", this.lose);
      document.addEventListener("visibilitychange", this.wake);
    }
    this.connect();
  }

  /** Called when the session is shown, which then has a connection in any case. */
  show(): void {
    if (links[0] === this || !links.includes(this)) return;
    links = [this, ...links.filter((link) => link !== this)];
    for (const link of links) link.park();
  }

  close(): void {
    this.closed = true;
    links = links.filter((link) => link !== this);
    clearTimeout(this.retry);
    clearInterval(this.looking);
    if (typeof window !== "undefined") {
      window.removeEventListener("online", this.wake);
      window.removeEventListener("offline", this.lose);
      document.removeEventListener("visibilitychange", this.wake);
    }
    this.connection?.close();
    this.connection = undefined;
    for (const link of links) link.park();
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

  /** Withdraws a prompt that has not been delivered yet. */
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

  /** Subscribes to changes of `status` and `pending`. */
  onStatus(listener: () => void): () => void {
    this.statusListeners.add(listener);
    return () => this.statusListeners.delete(listener);
  }

  /** Reconnects immediately, at the user's request. */
  readonly again = (): void => {
    if (this.closed || this.connection) return;
    this.attempts = 0;
    this.connect();
  };

  private get mayStream(): boolean {
    // A message that is not delivered yet needs the stream, which shows if it is in the log.
    return links.indexOf(this) < STREAMS_MAX || this.outbox.pending.length > 0;
  }

  /** Ends a stream that other sessions need more, or begins one again. */
  private park(): void {
    const { state } = this.status;
    const follows = this.connection?.kind === "events" && !this.loading;
    if (state === "parked" ? this.mayStream : follows && !this.mayStream) {
      this.drop();
      this.connect();
    }
  }

  private connect(): void {
    clearTimeout(this.retry);
    if (this.closed) return;
    const blocked = blocksSockets(this.world.now());
    if (blocked && !this.mayStream) {
      this.loading = false;
      this.become({ state: "parked", kind: undefined, why: "", hint: "", final: false });
      return;
    }
    this.number += 1;
    const number = this.number;
    this.heardAt = this.world.now();
    this.historyEnd = Number.POSITIVE_INFINITY;
    this.sequencer.reconnected();
    const open = blocked || this.loading ? this.world.events : this.world.socket;
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
      this.known = true;
      this.attempts = 0;
      const { kind } = this.connection ?? {};
      if (kind === "socket") this.socketFailures = 0;
      const missed = this.historyEnd - this.sequencer.complete;
      if (kind === "socket" && missed >= STREAMED_EVENTS_MIN && !this.loadingFailed) {
        this.loading = true;
        this.drop();
        this.connect();
        return;
      }
      if (!this.loading) this.become({ state: "open", kind, why: "", hint: "", final: false });
    }
    const sent = this.outbox.saw(message);
    if (sent && message.type === "prompt.queued") {
      const { content, seq } = message;
      const { images } = sent;
      for (const listener of this.queuedListeners) listener({ content, seq, ...(images && { images }) });
    }
    if (sent) this.changedPending();
    if (message.type === "error" && message.replyTo) this.refused(message.replyTo);
    for (const listener of [...this.listeners]) listener(message);
    if (this.loading && this.sequencer.complete >= this.historyEnd) {
      this.loading = false;
      this.drop();
      this.connect();
      return;
    }
    this.flush();
  }

  /** Sends pending messages once the history shows which of them are in the log. */
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

  /** Subscribes to rejected prompts, which return to the composer. */
  onRefused(listener: (pending: Pending) => void): () => void {
    this.refusedListeners.add(listener);
    return () => this.refusedListeners.delete(listener);
  }

  private readonly queuedListeners = new Set<(prompt: QueuedPrompt) => void>();

  /** Subscribes to prompts sent from here that the session has queued. */
  onQueued(listener: (prompt: QueuedPrompt) => void): () => void {
    this.queuedListeners.add(listener);
    return () => this.queuedListeners.delete(listener);
  }

  private drop(): void {
    this.number += 1;
    this.connection?.close();
    this.connection = undefined;
  }

  private async ended(ended: ConnectionEnd): Promise<void> {
    const kind = this.connection?.kind;
    this.loadingFailed ||= this.loading;
    this.loading = false;
    this.drop();
    const number = this.number;
    if (this.status.state === "open") this.become({ ...this.status, state: "connecting", kind: undefined });
    let status = ended.status;
    if (!ended.worked && status === undefined) status = await this.world.probe(this.id);
    if (this.closed || number !== this.number || this.connection) return;
    if (status === 401 || status === 404) return this.give(status);
    if (status === 200 && kind === "socket") {
      // The server is reachable, but its WebSocket is not: something on the way blocks WebSockets. A proxy that
      // swallows WebSockets delays each attempt, so one failure is enough.
      this.socketFailures += ended.late ? SOCKET_FAILURES_MAX : 1;
      if (this.socketFailures >= SOCKET_FAILURES_MAX) socketFailed(this.world.now());
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
      status === 401 ? [SIGNED_OUT, hintFor(401, "unauthorized")] : [this.known ? DELETED : NO_SESSION, ""];
    this.become({ state: "offline", kind: undefined, why, hint, final: true });
  }

  /** Closes a connection that has been silent for too long. */
  private readonly look = (): void => {
    const now = this.world.now();
    const silent = this.connection?.kind === "socket" && now - this.heardAt >= SILENCE_MS;
    if (silent) this.begin();
    else if (this.connection?.kind === "events" && !blocksSockets(now)) void this.tryWebSocket();
    else if (this.status.state === "parked" && !Number.isFinite(block.at)) this.connect();
  };

  /** The working stream is kept while a WebSocket is tried in parallel. */
  private async tryWebSocket(): Promise<void> {
    const number = this.number;
    socketFailed(this.world.now());
    if (!(await this.world.canOpenSocket(this.id))) return;
    resetSocketBlock();
    if (!this.closed && number === this.number) this.begin();
  }

  /** Closes the connection and opens a new one. */
  private begin(): void {
    this.drop();
    this.become({ ...this.status, state: "connecting", kind: undefined });
    this.connect();
  }

  /** The network is back or the page is visible again: retries immediately. */
  private readonly wake = (): void => {
    if (document.visibilityState === "hidden") return;
    if (!this.connection) {
      if (this.status.final && this.status.why !== SIGNED_OUT) return;
      this.again();
    } else this.look();
  };

  /**
   * The browser has lost its network. Without a look at this event, the silence of the connection would tell only after
   * `SILENCE_MS`. A server on the same machine can still be reached, so the link tries at once.
   */
  private readonly lose = (): void => {
    if (this.closed || this.status.final) return;
    this.drop();
    this.loading = false;
    const hint = hintFor(0, "");
    this.become({ state: "offline", kind: undefined, why: NO_NETWORK, hint, final: false });
    this.connect();
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

/** Returns a unique message id. */
export function newId(): string {
  ids += 1;
  return `page-${page}-${Date.now().toString(36)}-${ids}`;
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
