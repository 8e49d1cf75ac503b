/** Code spans in our own one-line texts, as in Markdown: a longer fence encloses text that contains backticks. */
import { neutralize } from "./neutralize";

const SPAN = /(`+)(.+?)\1(?!`)/g;

/** Returns the text as a code span. */
export function codeSpan(text: string): string {
  if (!text.includes("`")) return `\`${text}\``;
  const fence = "`".repeat(Math.max(...[...text.matchAll(/`+/g)].map(([run]) => run.length)) + 1);
  return `${fence} ${text} ${fence}`;
}

/** Returns the text without the fences of its code spans, to be read aloud or shown where only plain text can be. */
export function withoutFences(text: string): string {
  return text.replace(SPAN, (_, fence: string, code: string) => (fence.length > 1 ? code.trim() : code));
}

/** Shows code spans in code style. */
export function CodeSpans({ text }: { text: string }) {
  // Each match adds its fence and its code to the list.
  return text.split(SPAN).map((part, at, parts) => {
    if (at % 3 === 1) return null;
    if (at % 3 === 0) return neutralize(part);
    const code = (parts[at - 1]?.length ?? 0) > 1 ? part.trim() : part;
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text keep their positions
    return <code key={at}>{neutralize(code)}</code>;
  });
}
