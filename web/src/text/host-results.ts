/** Results of a call on several hosts, in words. */
import type { HostOutcome, Status } from "../wire";
import { statusLabel, statusSign } from "./labels";

/** Number of hosts on which a call failed that was done on all others; 0 if there were other results. */
function failedHosts(hosts: readonly HostOutcome[]): number {
  const failed = hosts.filter(({ status }) => status === "failed").length;
  return hosts.every(({ status }) => status === "ok" || status === "failed") ? failed : 0;
}

/** Returns the result of a call in words: `failed on 1 of 4 hosts`. */
export function resultLabel(status: Status, hosts: readonly HostOutcome[]): string {
  const failed = status === "failed" ? failedHosts(hosts) : 0;
  return failed === 0 ? statusLabel(status) : `failed on ${failed} of ${hosts.length} hosts`;
}

/**
 * Returns the number of hosts per result of a call on several hosts, the failures first: `✗ 1 host timed out, ✓ 3 hosts`;
 * empty if `resultLabel` says it all.
 */
export function hostCounts(hosts: readonly HostOutcome[]): string {
  if (failedHosts(hosts) > 0) return "";
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
