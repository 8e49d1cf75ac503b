/** Text of the end of a turn, beside its numbers. */
import type { Item } from "../state/item";
import { hostLabel } from "../text/labels";

type End = Extract<Item, { kind: "end" }>;

/** Returns what a user must know about the end; undefined if the turn just ended. It may have code spans. */
export function endText(item: End, machine: string | undefined): string | undefined {
  const { reason, error, missed, iterations } = item;
  if (reason === "cancelled") return "stopped";
  if (reason === "paused") return "stopped: a prompt or a command came while the turn was paused";
  if (error !== undefined && error !== "") return error;
  switch (reason) {
    case "end_turn":
      return missed === undefined ? undefined : `not done on ${hostLabel(missed, machine)}`;
    case "max_iterations":
      return `stopped after ${iterations} model calls; send \`continue\`, or raise max_iterations`;
    case "failed":
      return "the turn failed";
    default:
      return reason;
  }
}
