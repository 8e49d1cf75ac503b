/** Code spans in our own one-line texts, as in Markdown: a longer fence encloses text that contains backticks. */
import { neutralize } from "./neutralize";

/** Returns the text as a code span. */
export function codeSpan(text: string): string {
  if (!text.includes("`")) return `\`${text}\``;
  const fence = "`".repeat(Math.max(...[...text.matchAll(/`+/g)].map(([run]) => run.length)) + 1);
  return `${fence} ${text} ${fence}`;
}

/** Splits a text into plain parts and code, in turn, beginning with a plain part. */
function split(text: string): string[] {
  const runs = [...text.matchAll(/`+/g)].map(({ 0: { length }, index }) => ({ length, index }));
  const parts: string[] = [];
  let from = 0;
  let after = 0;
  for (const [at, { length, index }] of runs.entries()) {
    if (at < after) continue;
    const close = runs.findIndex((run, other) => other > at && run.length === length);
    const end = runs[close]?.index;
    if (end === undefined) continue;
    const code = text.slice(index + length, end);
    parts.push(text.slice(from, index), length > 1 ? code.trim() : code);
    from = end + length;
    after = close + 1;
  }
  return [...parts, text.slice(from)];
}

/** Returns the text without the fences of its code spans, to be read aloud or shown where only plain text can be. */
export function withoutFences(text: string): string {
  return split(text).join("");
}

/** Shows code spans in code style. */
export function CodeSpans({ text }: { text: string }) {
  return split(text).map((part, at) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text keep their positions
    at % 2 === 1 ? <code key={at}>{neutralize(part)}</code> : neutralize(part),
  );
}
