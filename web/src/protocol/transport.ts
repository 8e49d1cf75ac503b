/** One connection from open to close. A transport never reconnects; the link does. */
import type { ClientMessage, ServerMessage, SessionId } from "../wire";

/** Reason why a connection ended. */
export interface ConnectionEnd {
  /** True if at least one message was received. */
  worked: boolean;
  /** True if the connection attempt timed out without a response. */
  late?: boolean;
  /** HTTP status of a rejected connection. */
  status?: number;
  /** Message of the server, if any. */
  why?: string;
  /** True if the user or the page closed the connection. */
  byUs?: boolean;
}

/** Callbacks of a connection. */
export interface ConnectionHandlers {
  message(message: ServerMessage): void;
  /** Called for any incoming data: the connection is alive. */
  alive(): void;
  /** Called when the server starts again after the last complete event. */
  again(): void;
  ended(ended: ConnectionEnd): void;
}

/** An open connection, or one that is about to open. */
export interface Connection {
  readonly kind: "socket" | "events";
  /** Sends a message. Returns false if it cannot be sent over this connection now. */
  send(message: ClientMessage): boolean;
  /** Closes the connection; `ended` is not called any more. */
  close(): void;
}

/** Opens a connection that sends everything after `resumeFrom`. */
export type OpenConnection = (id: SessionId, resumeFrom: number, hooks: ConnectionHandlers) => Connection;

/** Parses a message; returns undefined if it is invalid. */
export function parse(text: string): ServerMessage | undefined {
  try {
    const said: unknown = JSON.parse(text);
    if (typeof said === "object" && said !== null && typeof (said as { type?: unknown }).type === "string") {
      return said as ServerMessage;
    }
  } catch {
    // Not a message of the server.
  }
  return undefined;
}
