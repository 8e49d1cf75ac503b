/** Hosts that the last calls on several hosts did not reach, with the reasons; see `missed_hosts.rs` in sysop-core. */
import { foldNames, hostLabel } from "../text/labels";
import { type Finding, NOT_REACHED } from "../wire";
import type { Item } from "./item";

/** Returns true for a finding about hosts on which a call will not run; see `Finding::is_unreached` in sysop-shell. */
export function isUnreached({ end, why, class: risk }: Finding): boolean {
  return risk === "read_only" && end === 0 && why.endsWith(NOT_REACHED);
}

/**
 * Returns a line for each of `hosts` that was missed, or for those with the same reason. `machine` is the name of the
 * server's machine.
 */
export function missedHosts(items: readonly Item[], hosts: readonly string[], machine = ""): string[] {
  const missed = new Map<string, string>();
  for (const item of items) {
    if (item.kind !== "step") continue;
    for (const { host, status, unreachable } of item.outcome?.hosts ?? []) {
      if (unreachable !== undefined) missed.set(host, unreachable);
      else if (status !== "rejected") missed.delete(host);
    }
  }
  const groups = new Map<string, string[]>();
  for (const host of hosts.map((name) => name.trim()).sort()) {
    const why = missed.get(host);
    if (why === undefined) continue;
    const reason = withoutHint(withoutHost(why, host));
    groups.set(reason, [...(groups.get(reason) ?? []), host]);
  }
  return [...groups].map(([reason, names]) => {
    const [name = ""] = names;
    const isNamed = reason === withoutHint(missed.get(name) ?? "") && isWordOf(reason, name);
    return names.length === 1 && isNamed
      ? reason
      : `${foldNames(names.map((host) => hostLabel(host, machine)))}: ${reason}`;
  });
}

/**
 * Returns the hosts on which a turn was not done, as in `host` of its session; see `MissedHosts::summary` in
 * sysop-core. `items` are those of the turn.
 */
export function missedInTurn(items: readonly Item[], host: string): string | undefined {
  let missedAll = false;
  const missed = new Set<string>();
  for (const item of items) {
    if (item.kind !== "step" || !item.outcome) continue;
    const { status, unreachable, hosts } = item.outcome;
    if (unreachable) missedAll = true;
    else if (item.started && status !== "rejected") missedAll = false;
    for (const one of hosts) {
      if (one.unreachable !== undefined) missed.add(one.host);
      else if (one.status !== "rejected") missed.delete(one.host);
    }
  }
  return (missedAll ? host : [...missed].sort().join(",")) || undefined;
}

/** Returns the reason why a host could not be reached without the host's name, if that is its label. */
export function withoutHost(why: string, host: string): string {
  return why.startsWith(`${host}: `) ? why.slice(host.length + 2) : why;
}

/** Returns the failure of an error of the form `what failed; what to do`; see `split_hint` in sysop-core. */
export function withoutHint(why: string): string {
  const count = (text: string, mark: string) => text.split(mark).length - 1;
  for (let at = why.lastIndexOf("; "); at > 0; at = why.lastIndexOf("; ", at - 1)) {
    const before = why.slice(0, at);
    const quotes = count(before, '"') - count(before, '\\"');
    const isOutside =
      count(before, "`") % 2 === 0 && quotes % 2 === 0 && count(before, "(") <= count(before, ")");
    if (isOutside) return before;
  }
  return why;
}

function isWordOf(text: string, name: string): boolean {
  return text.split(/[ ,:`]/).includes(name);
}
