/** A paused turn, which the next message ends; see `Session::activity` in sysop-core. */
import type { Step } from "./item";
import { pendingApproval, type Transcript } from "./transcript";

/** Returns the call that runs. */
export function runningCall({ items }: Transcript): Step | undefined {
  return items.findLast((item): item is Step => item.kind === "step" && item.started && !item.outcome);
}

/** True if a message would end the turn instead of waiting in its queue. */
export function endsByMessage(transcript: Transcript): boolean {
  const { phase, stepOpen } = transcript;
  return phase === "paused" && !stepOpen && !runningCall(transcript) && !pendingApproval(transcript);
}
