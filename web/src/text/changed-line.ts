/** The changes that a command made, in one line like in the other front ends. */
import type { HostOutcome, Reversibility, SystemChange } from "../wire";
import { neutralizeLine } from "./neutralize";

/** Maximum changes to list. */
const NAMED_MAX = 4;

/** Returns one line with the changes of a command and the extent of their undo; empty if nothing changed. */
export function changedLine(
  changed: readonly SystemChange[],
  undo: Reversibility | undefined,
  hosts: readonly HostOutcome[] = [],
): string {
  if (changed.length === 0) return "";
  const groups = changeGroups(changed, hosts);
  const files = groups.filter(({ kind }) => kind === "file");
  const others = groups.filter(({ kind }) => kind !== "file");
  const parts = others.slice(0, NAMED_MAX).map(changePhrase);
  if (others.length > NAMED_MAX) parts.push(`${others.length - NAMED_MAX} more`);
  if (files.length > 0) parts.unshift(filesPhrase(files));
  return neutralizeLine(`changed: ${parts.join(", ")}${undo === undefined ? "" : `; undo: ${undo}`}`);
}

/** A change that is the same on all its hosts; no hosts if the call ran on one host only. */
interface ChangeGroup extends SystemChange {
  hosts: string[];
}

/** Where a call ran on several hosts, the name of each change begins with a host and a colon. */
function changeGroups(changed: readonly SystemChange[], hosts: readonly HostOutcome[]): ChangeGroup[] {
  const longestFirst = hosts.map(({ host }) => host).sort((one, other) => other.length - one.length);
  const groups: ChangeGroup[] = [];
  for (const change of changed) {
    const host = longestFirst.find((name) => change.name.startsWith(`${name}:`));
    const name = host === undefined ? change.name : change.name.slice(host.length + 1);
    const same = groups.find(
      (group) => group.kind === change.kind && group.name === name && group.how === change.how,
    );
    const on = host === undefined ? [] : [host];
    if (same) same.hosts.push(...on.filter((other) => !same.hosts.includes(other)));
    else groups.push({ ...change, name, hosts: on });
  }
  return groups;
}

function onHosts(hosts: readonly string[]): string {
  if (hosts.length === 0) return "";
  return hosts.length === 1 ? ` on ${hosts[0]}` : ` on ${hosts.length} hosts`;
}

/** Names one file, or counts several; the same file on several hosts is one file. */
function filesPhrase(files: readonly ChangeGroup[]): string {
  const [first] = files;
  if (first && files.length === 1 && moreFiles(first.name) === 0) return changePhrase(first);
  const names = new Set(files.map(({ name }) => name).filter((name) => moreFiles(name) === 0));
  const more = Math.max(...files.map(({ name }) => moreFiles(name)));
  const on = onHosts([...new Set(files.flatMap(({ hosts }) => hosts))]);
  if (names.size === 1 && more === 0) return `${[...names][0]}${on}`;
  return `${names.size + more} files${on}`;
}

function moreFiles(name: string): number {
  return Number(/^(\d+) more files$/.exec(name)?.[1] ?? 0);
}

function changePhrase(group: ChangeGroup): string {
  return `${changeText(group)}${onHosts(group.hosts)}`;
}

function changeText({ kind, name, how: word }: SystemChange): string {
  const how = word === "created empty" ? "created (empty)" : word;
  switch (kind) {
    case "unit":
      return `unit ${name} ${how}`;
    case "package":
      return `package ${name} ${how}`;
    case "user":
      return name.includes(" ") ? `${name} ${how}` : `user ${name} ${how}`;
    case "cron":
      return `crontab of ${name} ${how}`;
    case "firewall":
      return `rules of ${name} ${how}`;
    default:
      return `${name} ${how}`;
  }
}
