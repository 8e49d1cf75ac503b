/** Joins sentences into one line to be read aloud; a sentence without an end mark gets a period. */
export function sentences(texts: readonly string[]): string {
  return texts.map((text) => (/[.!?…]["')\]]?$/.test(text) ? text : `${text}.`)).join(" ");
}
