/** Words for the findings of a command. */
import type { Finding } from "../wire";

/** The server's words for every path that a command writes, replaces or removes. */
const WRITES = "writes to a file";
/** A simple command up to one of its operands, if the command removes its operands. */
const REMOVES =
  /(?:^|[;&|\n(`{])\s*(?:(?:sudo|doas|env|nice|command|time)\s+(?:-\S+\s+)*)*(?:\S*\/)?(?:rm|rmdir|unlink|shred)\s+(?:[^;&|\n<>]*\s)?$/;

/** Returns the reason of a finding; a path that the command removes is deleted, not written. */
export function whyOf(commandBefore: string, { why }: Finding): string {
  return why === WRITES && REMOVES.test(commandBefore) ? "deletes" : why;
}

const UNKNOWN_EFFECT = "effect unknown";

/**
 * Returns the line of a preview. The risk already says what kind of effect a command has, so a line without a result
 * says only why it has none, or is empty.
 */
export function previewLine(line: string): string {
  if (line === UNKNOWN_EFFECT) return "";
  const known = line.replaceAll(`${UNKNOWN_EFFECT} (`, "no preview (");
  return known.startsWith("no preview (") ? `N${known.slice(1)}` : known;
}
