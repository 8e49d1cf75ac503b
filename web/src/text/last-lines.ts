/** Cuts long text at the beginning of a line. */

/** Returns the last characters of the text, from the beginning of a line if there is one, and the number of those before. */
export function lastLines(text: string, charsMax: number): { shown: string; lines: number; chars: number } {
  if (text.length <= charsMax) return { shown: text, lines: 0, chars: 0 };
  let cut = text.length - charsMax;
  const end = text.indexOf("\n", cut - 1);
  if (end >= 0 && end < text.length - 1) cut = end + 1;
  // Half of a surrogate pair is no character.
  else if (/[\udc00-\udfff]/.test(text[cut] ?? "")) cut += 1;
  return { shown: text.slice(cut), lines: text.slice(0, cut).split("\n").length - 1, chars: cut };
}

/** Counts text that is not shown, in characters only if it is all of one line. */
export function earlierLabel(lines: number, chars: number): string {
  const [count, noun] = lines > 0 ? [lines, "line"] : [chars, "character"];
  return `${count} earlier ${noun}${count === 1 ? "" : "s"}`;
}
