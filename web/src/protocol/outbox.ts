/**
 * Prompts in flight. A prompt is resent until it is in the log, so that a broken connection loses none; the server
 * recognizes duplicates by their `messageId`.
 */
import type { PromptImage, ServerMessage } from "../wire";

/** What the server puts into the log for a prompt of images without text. */
const IMAGES_ONLY = "Look at this.";

/** A prompt in flight. */
export interface Pending {
  messageId: string;
  content: string;
  images?: PromptImage[];
  /** Last event at the time of sending; only a later event can be this prompt. */
  after: number;
  /** Number of the connection that it was sent over; 0 if it has not been sent. */
  sentOver: number;
}

/** A prompt sent from here that waits in the session's queue. */
export interface QueuedPrompt {
  content: string;
  images?: PromptImage[];
  /** Position in the log at which the prompt was queued. */
  seq: number;
  /** True if this tab asked the session to take the prompt back. */
  asked?: boolean;
}

export class Outbox {
  private list: readonly Pending[];

  constructor(kept: readonly Pending[] = []) {
    this.list = kept.map((pending) => ({ ...pending, sentOver: 0 }));
  }

  /** Messages in flight, oldest first. */
  get pending(): readonly Pending[] {
    return this.list;
  }

  add(content: string, messageId: string, after: number, images?: PromptImage[]): void {
    this.list = [...this.list, { messageId, content, after, sentOver: 0, ...(images?.length && { images }) }];
  }

  /** Returns the prompts not yet sent over this connection, and marks them as sent. */
  due(connection: number): Pending[] {
    const due = this.list.filter((pending) => pending.sentOver !== connection);
    if (due.length > 0) this.list = this.list.map((pending) => ({ ...pending, sentOver: connection }));
    return due;
  }

  /** Removes and returns the prompt that the message shows to be in the log. */
  saw(message: ServerMessage): Pending | undefined {
    if (message.type !== "user.message" && message.type !== "prompt.queued") return undefined;
    const found = this.list.find(
      (pending) => message.seq > pending.after && logged(pending) === message.content.trim(),
    );
    if (found) this.list = this.list.filter((pending) => pending !== found);
    return found;
  }

  /** Removes a prompt that is not to be sent, or was rejected. */
  remove(messageId: string): Pending | undefined {
    const found = this.list.find((pending) => pending.messageId === messageId);
    if (found) this.list = this.list.filter((pending) => pending !== found);
    return found;
  }
}

/** Returns the text under which the prompt will be in the log. */
function logged({ content, images }: Pending): string {
  return content.trim() || (images?.length ? IMAGES_ONLY : "");
}
