/** What may be typed into a terminal for a person who pasted it, or pressed a button beside a command. */

/** What a terminal would take for more than text: all control characters but the tab and ends of lines. */
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** A text that is about to be typed. */
export interface TerminalText {
  /** Text, tabs and `\n`, and nothing else. */
  text: string;
  /** Why the person has to look at it first; none where they need not. */
  why: string | undefined;
}

/** What is left of a text, and whether somebody should look at it before it is typed. */
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

/** The bytes for it, as keys: marked as pasted where the program asked for that. */
export function keysFor(text: string, bracketed: boolean): string {
  const keys = text.replace(/\n/g, "\r");
  return bracketed ? `\u001b[200~${keys}\u001b[201~` : keys;
}
