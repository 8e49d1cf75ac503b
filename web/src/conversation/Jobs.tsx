/** Background jobs, each with a stop button. */
import type { SessionStore } from "../state/session-store";
import type { Job } from "../state/transcript";
import { neutralizeLine } from "../text/neutralize";

export function Jobs({
  store,
  jobs,
  online,
}: {
  store: SessionStore;
  jobs: readonly Job[];
  online: boolean;
}) {
  if (jobs.length === 0) return null;
  return (
    <ul className="waiting jobs" aria-label="Background jobs">
      {jobs.map(({ jobId, command, host }) => (
        <li key={jobId}>
          <span className="tag">
            job {jobId} on {neutralizeLine(host)}
          </span>{" "}
          <code>{neutralizeLine(command).slice(0, 120)}</code>
          <button
            type="button"
            disabled={!online}
            aria-label={`Stop job ${jobId}`}
            onClick={() => store.stopJob(jobId)}
          >
            Stop
          </button>
        </li>
      ))}
    </ul>
  );
}
