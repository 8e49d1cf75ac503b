/** Checks text before it is typed into a terminal: a paste, or a command run by a button. */

/** Characters that a terminal would interpret: all control characters except tab and line ends. */
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Text to be typed. */
export interface TerminalText {
  /** Text without control characters other than tab and `\n`. */
  text: string;
  /** Reason for a confirmation; undefined if none is needed. */
  why: string | undefined;
}

/** Returns the text without control characters, and the reason for a confirmation, if any. */
export function prepareInput(pasted: string): TerminalText {
  const lines = pasted.replace(/\r\n?/g, "\n");
  const text = lines.replace(CONTROLS, "");
  const count = text.replace(/\n$/, "").split("\n").length;
  if (text !== lines) return { text, why: "Control characters were removed." };
  if (count > 1)
    return { text, why: `This text has ${count} lines. The shell may run each one immediately.` };
  if (text.endsWith("\n"))
    return { text, why: "This text ends with a line break. The shell may run it immediately." };
  return { text, why: undefined };
}

/** Returns the keys for the text; in bracketed paste mode, marked as a paste. */
export function keysFor(text: string, bracketed: boolean): string {
  const keys = text.replace(/\n/g, "\r");
  return bracketed ? `\u001b[200~${keys}\u001b[201~` : keys;
}
