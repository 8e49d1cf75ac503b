/** Table of the last call's state on several hosts. */
import { Fragment } from "react";
import type { Step } from "../state/item";
import { withoutHost } from "../state/missed-hosts";
import type { SessionStore } from "../state/session-store";
import { duration, hostLabel, statusLabel, statusSign } from "../text/labels";
import { oneLine } from "../text/neutralize";
import type { Status } from "../wire";
import { useSessionPart } from "./hooks";
import { useMachine } from "./me";

interface HostState {
  host: string;
  /** Result on the host; undefined while the call runs, or if it did not run there. */
  status: Status | undefined;
  exitCode: number | undefined;
  durationMs: number | undefined;
  /** Reason why the host could not be reached; undefined if it was. */
  unreachable: string | undefined;
}

/** The last call that runs, or that ran on the hosts and not only in the session. */
export function lastStep(items: readonly { kind: string }[]): Step | undefined {
  const wanted = ({ started, outcome }: Step) => started && (!outcome || outcome.hosts.length > 0);
  return items.findLast((item) => item.kind === "step" && wanted(item as Step)) as Step | undefined;
}

/** Words for a host without a result of the call. */
function withoutResult(step: Step | undefined): string {
  if (!step) return "not contacted yet";
  return step.outcome ? "no result" : "running…";
}

function stateLabel(status: Status): string {
  return `${statusSign(status)} ${status === "rejected" ? "not run" : statusLabel(status)}`;
}

/** State of a call on each host: its result or its progress. */
export function hostStates(hosts: readonly string[], step: Step | undefined): HostState[] {
  return hosts.map((host) => {
    const ended = step?.outcome?.hosts.find((other) => other.host === host);
    const live = step?.hostsEnded.find((other) => other.host === host);
    return {
      host,
      // The core reports such a call as failed.
      status: ended?.unreachable === undefined ? (ended?.status ?? live?.status) : "rejected",
      exitCode: ended?.exit_code ?? live?.exitCode,
      durationMs: ended?.duration_ms ?? live?.durationMs,
      unreachable: ended?.unreachable && withoutHost(ended.unreachable, host),
    };
  });
}

/** Counts the hosts on which a call ended, on which it did not run, and on which it failed. */
export function countStates(states: readonly HostState[]) {
  const count = (...wanted: (Status | undefined)[]) =>
    states.filter(({ status }) => wanted.includes(status)).length;
  const notRun = count("rejected");
  return { done: states.length - count(undefined) - notRun, notRun, failed: count("failed", "timeout") };
}

export function HostTable({ store }: { store: SessionStore }) {
  const machine = useMachine();
  const hosts = useSessionPart(store, (view) => view.transcript.facts?.host ?? "");
  const step = useSessionPart(store, (view) => lastStep(view.transcript.items));
  const names = hosts.split(",").map((name) => name.trim());
  const states = hostStates(names, step);
  const { done, notRun, failed } = countStates(states);
  const runs = step !== undefined && !step.outcome;
  return (
    <section className="fleet" aria-label="Hosts">
      <header>
        <h2>{names.length} hosts</h2>
        {step && (
          <>
            <span role="status">
              {done}/{names.length} done
            </span>
            {failed > 0 && <span className="failed">{failed} failed</span>}
            {notRun > 0 && <span>{notRun} not run</span>}
            {runs && <progress value={done + notRun} max={names.length} aria-label="Hosts done" />}
            <code className="meta">{oneLine(step.command).slice(0, 120)}</code>
          </>
        )}
      </header>
      <div className="rows" tabIndex={0} role="group" aria-label="Hosts and their states">
        <table>
          <thead>
            <tr>
              <th scope="col">Host</th>
              <th scope="col">State</th>
              <th scope="col" className="number">
                Exit code
              </th>
              <th scope="col" className="number">
                Time
              </th>
            </tr>
          </thead>
          <tbody>
            {states.map(({ host, status, exitCode, durationMs, unreachable }) => (
              <Fragment key={host}>
                <tr className={unreachable && "explained"}>
                  <td>{hostLabel(host, machine)}</td>
                  <td className={status}>{status ? stateLabel(status) : withoutResult(step)}</td>
                  <td className="number">{exitCode}</td>
                  <td className="number">
                    {durationMs && status !== "rejected" ? duration(durationMs) : ""}
                  </td>
                </tr>
                {unreachable && (
                  <tr>
                    <td colSpan={4} className="meta">
                      {oneLine(unreachable)}
                    </td>
                  </tr>
                )}
              </Fragment>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
