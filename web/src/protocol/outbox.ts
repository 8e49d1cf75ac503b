/**
 * Prompts that are on their way. One is sent again until the log has it, so that a connection that breaks in the wrong
 * moment loses none; its `messageId` and the log see to it that none is said twice.
 */
import type { PromptImage, ServerMessage } from "../wire";

/** A prompt on its way. */
export interface Pending {
  messageId: string;
  content: string;
  images?: PromptImage[];
  /** The last event that was here when the person sent it: only what comes later can be it. */
  after: number;
  /** The connection that it was sent over; 0 where it was not sent yet. */
  sentOver: number;
}

export class Outbox {
  private list: readonly Pending[];

  constructor(kept: readonly Pending[] = []) {
    this.list = kept.map((pending) => ({ ...pending, sentOver: 0 }));
  }

  /** What is on its way, the oldest first. */
  get pending(): readonly Pending[] {
    return this.list;
  }

  add(content: string, messageId: string, after: number, images?: PromptImage[]): void {
    this.list = [...this.list, { messageId, content, after, sentOver: 0, ...(images?.length && { images }) }];
  }

  /** Those that this connection has not carried; they are taken to be sent now. */
  due(connection: number): Pending[] {
    const due = this.list.filter((pending) => pending.sentOver !== connection);
    if (due.length > 0) this.list = this.list.map((pending) => ({ ...pending, sentOver: connection }));
    return due;
  }

  /** Looks whether the log has one of them. */
  saw(message: ServerMessage): boolean {
    if (message.type !== "user.message" && message.type !== "prompt.queued") return false;
    const found = this.list.find(
      (pending) => message.seq > pending.after && pending.content.trim() === message.content.trim(),
    );
    if (found) this.list = this.list.filter((pending) => pending !== found);
    return found !== undefined;
  }

  /** Takes one back, as it is not to be sent or was refused. */
  remove(messageId: string): Pending | undefined {
    const found = this.list.find((pending) => pending.messageId === messageId);
    if (found) this.list = this.list.filter((pending) => pending !== found);
    return found;
  }
}
