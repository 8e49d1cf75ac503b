/** The program that a call started in the session's terminal and that still runs, as in `Outcome::running_program`. */
import type { Outcome } from "../state/item";

/** The host's last note, with the lines after it that say why the call has no undo; see `outcome.rs` in sysop-core. */
export const RUNNING_NOTE = /(?<![^\n])\[(?!no undo: )([^\n]*)\](?=(?:\n\[no undo: [^\n]*\])*\n*$)/;

const WAITS_FOR_INPUT = "the command is still running and seems to wait for an answer; answer with send_keys";
const FULL_SCREEN = /^(?:a full-screen program is still running; continue|a pager is still open; use) /;
const NESTED_SHELL = /^another shell \(.*\) is running inside the terminal's shell /;

/** Notes of a host about a call whose result it does not know, and what the page says; as in `Outcome::loss`. */
const LOSSES: readonly [string, string][] = [
  ["the command ended, but its exit code was lost", "ended; its exit code was lost"],
  ["the inner shell ended; commands now go to the outer shell", "the inner shell ended"],
  ["the connection ended; ", "outcome unknown: the connection ended; not run again"],
];

/** Says what is known about a call without a known result; undefined if that is nothing. */
export function lostResult({ status, output }: Pick<Outcome, "status" | "output">): string | undefined {
  const note = status === "unknown" ? RUNNING_NOTE.exec(output)?.[1] : undefined;
  const fits = (known: string) => (known.endsWith(" ") ? note?.startsWith(known) : note === known);
  return LOSSES.find(([known]) => fits(known))?.[1];
}

/** Says what the program does; undefined if none is known to run. */
export function runningProgram({ status, output }: Pick<Outcome, "status" | "output">): string | undefined {
  const note = status === "unknown" ? RUNNING_NOTE.exec(output)?.[1] : undefined;
  if (note === undefined) return undefined;
  if (note === WAITS_FOR_INPUT) return "still running; it waits for input";
  if (FULL_SCREEN.test(note)) return "still running in the terminal";
  return NESTED_SHELL.test(note) ? "another shell is open in the terminal" : undefined;
}
