/** One connection, from its beginning to its end. A transport never tries again: that is the link's business. */
import type { ClientMessage, ServerMessage, SessionId } from "../wire";

/** Why a connection ended. */
export interface ConnectionEnd {
  /** Whether it ever worked: whether a message came. */
  worked: boolean;
  /** Whether nobody answered at all for as long as it may take. */
  late?: boolean;
  /** The HTTP status that refused it, where one did. */
  status?: number;
  /** The server's own sentence, where there is one. */
  why?: string;
  /** Whether the person or the page ended it. */
  byUs?: boolean;
}

/** What a connection tells. */
export interface ConnectionHandlers {
  message(message: ServerMessage): void;
  /** Anything came, even what is no message: the connection lives. */
  alive(): void;
  /** From here on it is told again what came after the last event that was told whole. */
  again(): void;
  ended(ended: ConnectionEnd): void;
}

/** An open connection, or one that is about to open. */
export interface Connection {
  readonly kind: "socket" | "events";
  /** Sends a message; false where it cannot be sent this way now. */
  send(message: ClientMessage): boolean;
  /** Ends it; `ended` is not called any more. */
  close(): void;
}

/** Opens a connection that sends all that came after `resumeFrom`. */
export type OpenConnection = (id: SessionId, resumeFrom: number, hooks: ConnectionHandlers) => Connection;

/** Reads one message; nothing where it is none. */
export function parse(text: string): ServerMessage | undefined {
  try {
    const said: unknown = JSON.parse(text);
    if (typeof said === "object" && said !== null && typeof (said as { type?: unknown }).type === "string") {
      return said as ServerMessage;
    }
  } catch {
    // Not ours.
  }
  return undefined;
}
