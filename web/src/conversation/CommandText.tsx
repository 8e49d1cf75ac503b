/** A command, byte for byte: invisible characters are shown, and dangerous parts are marked. */

import { SafeText } from "../text/Code";
import type { Finding, RiskClass } from "../wire";

/** A part of a command with its findings. */
export interface CommandPart {
  text: string;
  class: RiskClass | undefined;
  why: string;
}

const WORSE: RiskClass[] = [
  "read_only",
  "reads_remote",
  "changes",
  "opaque",
  "reads_secret",
  "dangerous",
  "lockout",
];

/** Splits a command at its findings, whose offsets are in UTF-8 bytes. */
export function partsOf(command: string, findings: readonly Finding[]): CommandPart[] {
  if (findings.length === 0) return [{ text: command, class: undefined, why: "" }];
  const bytes = new TextEncoder().encode(command);
  const within = (place: number) => Math.max(0, Math.min(bytes.length, place));
  const edges = new Set([0, bytes.length]);
  for (const { start, end } of findings) {
    edges.add(within(start));
    edges.add(within(end));
  }
  const places = [...edges].sort((a, b) => a - b);
  // Keep a byte order mark at the beginning of a part.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return places.slice(0, -1).map((start, at) => {
    const end = places[at + 1] ?? bytes.length;
    const here = findings.filter((finding) => finding.start <= start && finding.end >= end);
    const worst = here.reduce<Finding | undefined>(
      (worse, finding) =>
        !worse || WORSE.indexOf(finding.class) > WORSE.indexOf(worse.class) ? finding : worse,
      undefined,
    );
    const why = [...new Set(here.map((finding) => finding.why))].join("; ");
    return { text: decoder.decode(bytes.subarray(start, end)), class: worst?.class, why };
  });
}

/** Parts of a command that have the same findings. */
export interface FindingGroup {
  parts: readonly string[];
  whys: readonly string[];
  /** Worst class of its findings. */
  class: RiskClass;
}

/** Groups the findings of a command by part and by reason, worst first, without duplicates. */
export function groupedFindings(command: string, findings: readonly Finding[]): FindingGroup[] {
  const bytes = new TextEncoder().encode(command);
  const byPart = new Map<string, FindingGroup>();
  for (const { start, end, why, class: risk } of findings) {
    const text = new TextDecoder().decode(bytes.subarray(start, end));
    const { whys, class: known }: FindingGroup = byPart.get(text) ?? { parts: [text], whys: [], class: risk };
    const worst = isWorse(risk, known) ? risk : known;
    byPart.set(text, { parts: [text], whys: whys.includes(why) ? whys : [...whys, why], class: worst });
  }
  const groups = new Map<string, FindingGroup>();
  for (const group of byPart.values()) {
    // A finding without a part is about the whole command.
    const key = JSON.stringify([group.class, group.whys, group.parts.includes("")]);
    groups.set(key, { ...group, parts: [...(groups.get(key)?.parts ?? []), ...group.parts] });
  }
  return [...groups.values()].sort((a, b) => WORSE.indexOf(b.class) - WORSE.indexOf(a.class));
}

/** Returns true if a class is worse than another one, such as `changes`. */
export function isWorse(risk: RiskClass, than: RiskClass): boolean {
  return WORSE.indexOf(risk) > WORSE.indexOf(than);
}

export function CommandText({ text, findings = [] }: { text: string; findings?: readonly Finding[] }) {
  return partsOf(text, findings).map((part, at) =>
    part.class === undefined ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of one command keep their positions
      <SafeText key={at} text={part.text} />
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of one command keep their positions
      <mark key={at} className={`found ${part.class}`} title={part.why}>
        <SafeText text={part.text} />
      </mark>
    ),
  );
}
