/** The program that a call started in the session's terminal and that still runs, as in `Outcome::running_program`. */
import type { Outcome } from "../state/item";

/** The host's last note, with the lines after it that say why the call has no undo; see `outcome.rs` in sysop-core. */
export const RUNNING_NOTE = /(?<![^\n])\[(?!no undo: )([^\n]*)\](?=(?:\n\[no undo: [^\n]*\])*\n*$)/;

const WAITS_FOR_INPUT = "the command is still running and seems to wait for an answer; answer with send_keys";
const FULL_SCREEN = /^(?:a full-screen program is still running; continue|a pager is still open; use) /;
const NESTED_SHELL = /^another shell \(.*\) is running inside the terminal's shell /;

/** Says what the program does; undefined if none is known to run. */
export function runningProgram({ status, output }: Pick<Outcome, "status" | "output">): string | undefined {
  const note = status === "unknown" ? RUNNING_NOTE.exec(output)?.[1] : undefined;
  if (note === undefined) return undefined;
  if (note === WAITS_FOR_INPUT) return "still running; it waits for input";
  if (FULL_SCREEN.test(note)) return "still running in the terminal";
  return NESTED_SHELL.test(note) ? "another shell is open in the terminal" : undefined;
}
