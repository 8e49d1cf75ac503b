/** Results of a call, perhaps on several hosts, in words. */
import type { Outcome } from "../state/item";
import type { HostOutcome, Status } from "../wire";
import { statusLabel, statusSign } from "./labels";
import { lostResult, runningProgram } from "./running-program";

/** Returns the hosts on which a call failed that was done on all others, in words; empty if there were other results. */
function failedHosts(hosts: readonly HostOutcome[]): string {
  const failures = hosts.filter(({ status }) => status === "failed");
  if (failures.length === 0 || hosts.some(({ status }) => status !== "ok" && status !== "failed")) return "";
  const missed = failures.filter(({ unreachable }) => unreachable !== undefined).length;
  const failed = failures.length - missed;
  const of = `of ${hosts.length} hosts`;
  const told = [failed > 0 && `failed on ${failed} ${of}`, missed > 0 && `not run on ${missed} ${of}`];
  return told.filter(Boolean).join(", ");
}

/** Returns the result of a call in words: `failed on 1 of 4 hosts`, or `not run` on those that were not reached. */
export function resultLabel(status: Status, hosts: readonly HostOutcome[]): string {
  return (status === "failed" && failedHosts(hosts)) || statusLabel(status);
}

/** Like `resultLabel`, but says what is known if the outcome is not. */
export function outcomeLabel(outcome: Pick<Outcome, "status" | "output" | "hosts">): string {
  return runningProgram(outcome) ?? lostResult(outcome) ?? resultLabel(outcome.status, outcome.hosts);
}

/**
 * Returns the number of hosts per result of a call on several hosts, the failures first: `✗ 1 host timed out, ✓ 3 hosts`;
 * empty if `resultLabel` says it all.
 */
export function hostCounts(hosts: readonly HostOutcome[]): string {
  if (failedHosts(hosts)) return "";
  const counts = new Map<Status, number>();
  for (const { status } of hosts) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts]
    .sort(([one], [other]) => Number(one === "ok") - Number(other === "ok"))
    .map(([status, count]) => {
      const word = status === "rejected" ? " not run" : ` ${statusLabel(status)}`;
      const told = status === "ok" || status === "failed" ? "" : word;
      return `${statusSign(status)} ${count} ${count === 1 ? "host" : "hosts"}${told}`;
    })
    .join(", ");
}
