/** One session's connection, whichever way it goes. */
import type { ClientMessage, ServerMessage } from "../wire";

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
