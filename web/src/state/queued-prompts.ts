/**
 * Prompts of this tab that wait in the session's queue. The user can take each one back, and a stop empties the queue;
 * then they return to the composer. The tab stores them, so that a reload or a lost connection changes nothing.
 */
import type { QueuedPrompt } from "../protocol/outbox";
import type { ServerMessage, StopReason } from "../wire";

export interface QueuedPrompts {
  waiting: readonly QueuedPrompt[];
  /**
   * Prompts that left the queue with the end of a turn. The session queues them again at once if something replaces the
   * turn, or if they came after the request to cancel it; those messages may be processed later than the end.
   */
  held: readonly QueuedPrompt[];
}

/** Returns the prompts after this tab asked for the newest one with this text, or after the server refused that. */
export function markAsked(
  prompts: readonly QueuedPrompt[],
  content: string,
  asked: boolean,
): readonly QueuedPrompt[] {
  const found = prompts.findLast((prompt) => prompt.content === content && isAsked(prompt) !== asked);
  if (!found) return prompts;
  const { content: text, images, seq } = found;
  const marked = { content: text, seq, ...(images && { images }), ...(asked && { asked }) };
  return prompts.map((prompt) => (prompt === found ? marked : prompt));
}

function isAsked({ asked = false }: QueuedPrompt): boolean {
  return asked;
}

/**
 * Returns the prompts as they are after these messages, and those that the session dropped for good, or that this tab
 * took back. Somebody else may take back an equal prompt. As in `sysop_core::session`, clearing the history does not
 * empty the queue.
 */
export function foldQueued(
  before: QueuedPrompts,
  messages: readonly ServerMessage[],
): QueuedPrompts & { dropped: readonly QueuedPrompt[] } {
  let { waiting, held } = before;
  let dropped: QueuedPrompt[] = [];
  /** Removes and returns what was queued before an event. */
  const takeBefore = (end: number) => {
    const taken = waiting.filter(({ seq }) => seq < end);
    if (taken.length > 0) waiting = waiting.filter(({ seq }) => seq >= end);
    return taken;
  };
  for (const message of messages) {
    if (message.type === "user.message") {
      const begun = waiting.find(({ content, seq }) => content === message.content && seq < message.seq);
      if (begun) waiting = waiting.filter((prompt) => prompt !== begun);
    } else if (message.type === "prompt.queued") {
      if (waiting.some(({ seq }) => seq === message.seq)) continue; // a new prompt of this tab
      const again = held.find(({ content, seq }) => content === message.content && seq < message.seq);
      if (!again) continue;
      held = held.filter((prompt) => prompt !== again);
      waiting = [...waiting, { ...again, seq: message.seq }];
    } else if (message.type === "prompt.withdrawn") {
      const back = waiting.findLast(
        (prompt) => isAsked(prompt) && prompt.content === message.content && prompt.seq < message.seq,
      );
      if (!back) continue;
      waiting = waiting.filter((prompt) => prompt !== back);
      dropped = [...dropped, back];
    } else if (message.type === "state" && message.event === "cancel_asked") {
      dropped = [...dropped, ...takeBefore(message.seq)];
    } else if (message.type === "assistant.done" && isStop(message.metadata.stopReason)) {
      const taken = takeBefore(message.seq);
      if (taken.length > 0) held = [...held, ...taken];
    }
  }
  return { waiting, held, dropped };
}

function isStop(reason: StopReason): boolean {
  return reason === "cancelled" || reason === "paused";
}
