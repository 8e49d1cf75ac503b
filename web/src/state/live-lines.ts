/** Lines of the server about work in progress: notices that are not in the log, and results of single hosts. */
import type { Status } from "../wire";
import type { HostEnd } from "./item";

/**
 * Returns true if the notice says what is done before or after a command (see `tell_progress` in sysop-host; in a
 * session with several hosts, it begins with the name of one), or which hosts have not answered the survey of a call
 * (see `tell_wait` there).
 */
export function isProgress(text: string): boolean {
  return (
    /^(.+: )?(saving files for undo|restoring files|comparing files)( on .+)?…$/.test(text) ||
    /^checking the (command|call) on \d+ hosts: waiting for .+…$/.test(text)
  );
}

/** Returns true if the notice says that a request failed and is tried again; see `retrying` in sysop-core. */
export function isRetrying(text: string): boolean {
  return /^retrying in .+, attempt \d+ of \d+: /.test(text);
}

/**
 * Returns what remains of a notice that `isRetrying` at the end of its request. If a user stopped the request, its last
 * attempt may not have been sent; all before it failed.
 */
export function retried(text: string, stopped: boolean): string {
  const [, attempt, reason = ""] = /^retrying in .+?, attempt (\d+) of \d+: ([\s\S]*)$/.exec(text) ?? [];
  const times = Number(attempt) - 1;
  const often = times === 1 ? "once" : times === 2 ? "twice" : `${times} times`;
  return `${stopped ? "the request failed" : "retried"} ${often} (${reason})`;
}

/**
 * Parses the progress lines of `sysop-host`: `[7/20 hosts] web1: ok, exit code 0, 8 ms`, or `…: not run`. Output of a
 * host is prefixed with its name, so it cannot look like one.
 */
export function hostEnds(lines: string): HostEnd[] {
  const time = "(?:(\\d+) min )?([\\d.]+) (ms|s)";
  const form = new RegExp(
    `^\\[\\d+/\\d+ hosts\\] (.+): (?:not run|([a-z]+)(?:, exit code (-?\\d+))?, ${time})\\n`,
    "gm",
  );
  return [...lines.matchAll(form)].map(([, host = "", status, code, minutes = "0", number = "0", unit]) => ({
    host,
    status: (status as Status | undefined) ?? "rejected",
    exitCode: code === undefined ? undefined : Number(code),
    durationMs: Number(minutes) * 60_000 + Math.round(Number(number) * (unit === "s" ? 1000 : 1)),
  }));
}
