/** Steps that a read-only session proposed instead of running them. Pure. */
import type { Step } from "./item";
import type { Transcript } from "./transcript";

/** Start of the result of a call that a read-only session denied; see `READ_ONLY_REFUSAL` in sysop-core. */
const READ_ONLY_REFUSAL =
  "denied: this session is read-only (approve = never); nothing ran. The call was recorded";
/** Maximum proposed steps of a turn. */
const STEPS_MAX = 32;

/**
 * Returns the calls of the last prompt's turn that were denied because the session was read-only, and have not run
 * since, in order.
 */
export function proposedSteps(transcript: Transcript): Step[] {
  let steps: Step[] = [];
  for (const item of transcript.items) {
    if (item.kind === "prompt") steps = [];
    if (item.kind !== "step") continue;
    const isOther = (step: Step) => !isSameCall(step, item);
    const denied = item.outcome?.status === "rejected" && item.outcome.output.startsWith(READ_ONLY_REFUSAL);
    if (item.origin !== "model") {
      if (item.started && item.decided.state !== "rejected") steps = steps.filter(isOther);
    } else if (denied && steps.length < STEPS_MAX && steps.every(isOther)) steps.push(item);
  }
  return steps;
}

function isSameCall(one: Step, other: Step): boolean {
  return one.tool === other.tool && JSON.stringify(one.arguments) === JSON.stringify(other.arguments);
}
