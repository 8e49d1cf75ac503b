/** A session over a WebSocket. */
import type { ClientMessage, SessionId } from "../wire";
import { sessionPath } from "./api";
import { type ConnectionEnd, type OpenConnection, parse } from "./transport";

/** Timeout for connecting and for the first message. */
const OPEN_MS = 6_000;
/** Interval of the page's heartbeats. */
const HEARTBEAT_MS = 10_000;

/** Client name and version in `hello`. */
const CLIENT_VERSION = "sysop page";

/** Returns true if a WebSocket can currently connect. */
export function canOpenWebSocket(id: SessionId): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = new WebSocket(addressOf(id));
    const end = (gets: boolean) => {
      clearTimeout(late);
      resolve(gets);
      socket.close();
    };
    const late = setTimeout(() => end(false), OPEN_MS);
    socket.addEventListener("open", () => end(true));
    socket.addEventListener("error", () => end(false));
    socket.addEventListener("close", () => end(false));
  });
}

function addressOf(id: SessionId): string {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return `${scheme}//${location.host}${sessionPath(id, "/stream")}`;
}

export const openWebSocket: OpenConnection = (id, resumeFrom, hooks) => {
  let worked = false;
  let over = false;
  let why: string | undefined;
  let socket: WebSocket | undefined;
  const end = (ended: ConnectionEnd) => {
    if (over) return;
    over = true;
    clearTimeout(opening);
    clearInterval(beating);
    socket?.close();
    hooks.ended(ended);
  };
  const opening = setTimeout(() => end({ worked, late: true }), OPEN_MS);
  let beating: ReturnType<typeof setInterval> | undefined;
  const say = (message: ClientMessage): boolean => {
    if (over || socket?.readyState !== WebSocket.OPEN) return false;
    socket.send(JSON.stringify(message));
    return true;
  };
  try {
    socket = new WebSocket(addressOf(id));
  } catch {
    queueMicrotask(() => end({ worked: false }));
  }
  socket?.addEventListener("open", () => {
    say({ type: "hello", clientVersion: CLIENT_VERSION, resumeFrom });
    beating = setInterval(() => say({ type: "heartbeat" }), HEARTBEAT_MS);
  });
  socket?.addEventListener("message", (event) => {
    if (over) return;
    hooks.alive();
    const message = typeof event.data === "string" ? parse(event.data) : undefined;
    if (!message) return;
    if (!worked) {
      worked = true;
      clearTimeout(opening);
    }
    if (message.type === "error" && message.code && !message.replyTo && message.seq === undefined) {
      why = message.message;
    }
    hooks.message(message);
  });
  socket?.addEventListener("close", () => end({ worked, why }));
  socket?.addEventListener("error", () => end({ worked, why }));
  return {
    kind: "socket",
    send: say,
    close: () => {
      over = true;
      clearTimeout(opening);
      clearInterval(beating);
      socket?.close(1000);
    },
  };
};
