/** People who took part in a session; mirrors `Participants` of sysop-core. */
import type { ServerMessage } from "../wire";

/** Names in the log that belong to sysop itself, not to a person. */
const NOT_PEOPLE = ["sysop", "a hook"];

export interface Participants {
  first: string | undefined;
  /** True if more than one person took part so far. Only then are the senders of prompts shown. */
  several: boolean;
}

export const nobody: Participants = { first: undefined, several: false };

/** Notes the person whom a message names, if any. */
export function noteParticipant(before: Participants, message: ServerMessage): Participants {
  const by = nameOf(message);
  if (before.several || by === undefined || by === before.first || NOT_PEOPLE.includes(by)) return before;
  return before.first === undefined ? { first: by, several: false } : { ...before, several: true };
}

function nameOf(message: ServerMessage): string | undefined {
  switch (message.type) {
    case "session.created":
      return message.openedBy;
    case "user.message":
    case "prompt.queued":
    case "approval.given":
    case "approval.closed":
    case "undone":
    case "state":
      return message.by;
    default:
      return undefined;
  }
}
