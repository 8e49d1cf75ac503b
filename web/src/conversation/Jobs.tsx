/** Background jobs, each with a button that leads to its command, and a stop button. */
import { useMachine } from "../app/me";
import type { SessionStore } from "../state/session-store";
import type { Job } from "../state/transcript";
import { hostLabel } from "../text/labels";
import { neutralizeLine } from "../text/neutralize";

export function Jobs({
  store,
  jobs,
  online,
  show,
  stopped,
}: {
  store: SessionStore;
  jobs: readonly Job[];
  online: boolean;
  /** Shows the card of the command that became this job. */
  show(jobId: number): void;
  /** Called when the user has clicked Stop, whose button goes. */
  stopped(): void;
}) {
  const machine = useMachine();
  if (jobs.length === 0) return null;
  return (
    <ul className="waiting jobs" aria-label="Background jobs">
      {jobs.map(({ jobId, command, host }) => (
        <li key={jobId}>
          <button type="button" className="tag small" title="Show its command" onClick={() => show(jobId)}>
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
