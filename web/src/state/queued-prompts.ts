/**
 * Prompts of this tab that wait in the session's queue. A stop empties the queue, and they return to the composer. The
 * tab stores them, so that a reload or a lost connection changes nothing.
 */
import type { QueuedPrompt } from "../protocol/outbox";
import type { ServerMessage } from "../wire";

/**
 * Returns the prompts that still wait after these messages, and those that were dropped from the queue. A turn that
 * replaces a paused one queues again what waited: in the same messages, or else the prompt is in the composer too.
 */
export function foldQueued(
  before: readonly QueuedPrompt[],
  messages: readonly ServerMessage[],
): { waiting: readonly QueuedPrompt[]; dropped: readonly QueuedPrompt[] } {
  let waiting = before;
  let dropped: QueuedPrompt[] = [];
  for (const message of messages) {
    if (message.type === "user.message") {
      const begun = waiting.find(({ content, seq }) => content === message.content && seq < message.seq);
      if (begun) waiting = waiting.filter((prompt) => prompt !== begun);
    } else if (message.type === "prompt.queued") {
      const again = dropped.find(({ content }) => content === message.content);
      if (!again) continue;
      dropped = dropped.filter((prompt) => prompt !== again);
      waiting = [...waiting, { ...again, seq: message.seq }];
    } else if (waiting.length > 0 && emptiesQueue(message)) {
      const seqOf = "seq" in message ? (message.seq ?? 0) : 0;
      dropped = [...dropped, ...waiting.filter(({ seq }) => seq < seqOf)];
      waiting = waiting.filter(({ seq }) => seq >= seqOf);
    }
  }
  return { waiting, dropped };
}

function emptiesQueue(message: ServerMessage): boolean {
  if (message.type === "state")
    return message.event === "cancel_asked" || message.event === "history_cleared";
  if (message.type !== "assistant.done") return false;
  const { stopReason } = message.metadata;
  return stopReason === "cancelled" || stopReason === "paused";
}
