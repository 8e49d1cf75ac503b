/** Background jobs, each with a button that shows the card of its command and reads its output if it can, and a stop button. */
import { useMachine } from "../app/me";
import type { SessionStore } from "../state/session-store";
import type { Job } from "../state/transcript";
import { callRefusal } from "../state/typed-calls";
import { hostLabel } from "../text/labels";
import { neutralizeLine } from "../text/neutralize";
import type { SessionState } from "../wire";

export function Jobs({
  store,
  jobs,
  online,
  phase,
  show,
  stopped,
}: {
  store: SessionStore;
  jobs: readonly Job[];
  online: boolean;
  phase: SessionState;
  /** Shows the card of the command that became this job. */
  show(jobId: number): void;
  /** Called when the user has clicked Stop, whose button goes. */
  stopped(): void;
}) {
  const machine = useMachine();
  // A reading would end a paused turn, and is refused while another one runs.
  const reads = online && phase !== "paused" && callRefusal(phase) === undefined;
  if (jobs.length === 0) return null;
  return (
    <ul className="waiting jobs" aria-label="Background jobs">
      {jobs.map(({ jobId, command, host }) => (
        <li key={jobId}>
          <button
            type="button"
            className="tag small"
            title={reads ? "Show its command, and read its output so far" : "Show its command"}
            onClick={() => {
              if (reads) store.readJob(jobId);
              show(jobId);
            }}
          >
            job {jobId} on {hostLabel(host, machine)}
          </button>{" "}
          <code>{neutralizeLine(command).slice(0, 120)}</code>
          <button
            type="button"
            disabled={!online}
            aria-label={`Stop job ${jobId}`}
            onClick={() => {
              store.stopJob(jobId);
              stopped();
            }}
          >
            Stop
          </button>
        </li>
      ))}
    </ul>
  );
}
