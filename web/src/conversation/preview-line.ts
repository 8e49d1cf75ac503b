const UNKNOWN_EFFECT = "effect unknown";
/** Line of an approval whose preview is still being computed. */
const STILL_CHECKING = "effect: still checking";

/** Returns true if the line, as `previewLine` returns it, names no effect, but only why there is none yet. */
export function isUnknown(line: string): boolean {
  return line === STILL_CHECKING || /(?:^|: )no preview \(/i.test(line);
}

/**
 * Returns the line of a preview. The risk already says what kind of effect a command has, so a line without a result
 * says only why it has none, or is empty.
 */
export function previewLine(line: string): string {
  if (line === UNKNOWN_EFFECT) return "";
  const known = line.replaceAll(`${UNKNOWN_EFFECT} (`, "no preview (");
  return known.startsWith("no preview (") ? `N${known.slice(1)}` : known;
}
