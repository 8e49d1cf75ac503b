/** Lines of the server about work in progress: notices that are not in the log, and results of single hosts. */
import type { Status } from "../wire";
import type { HostEnd } from "./item";

/** Returns true if the notice says what is done before or after a command; see `tell_progress` in sysop-host. */
export function isProgress(text: string): boolean {
  return /^(saving the state of|restoring|comparing) files( on .+)? …$/.test(text);
}

/** Returns true if both texts say that a request failed for the same reason and will be tried again. */
export function isSameRetry(older: string, newer: string): boolean {
  const reason = (text: string) => text.slice(0, Math.max(0, text.lastIndexOf("; trying again in ")));
  return reason(older) !== "" && reason(older) === reason(newer);
}

/**
 * Parses the progress lines of `sysop-host`: `[7/20 hosts] web1: ok, exit code 0, 8 ms`. Output of a host is prefixed
 * with its name, so it cannot look like one.
 */
export function hostEnds(lines: string): HostEnd[] {
  const form = /^\[\d+\/\d+ hosts\] (.+): ([a-z]+)(?:, exit code (-?\d+))?, (\d+) ms\n/gm;
  return [...lines.matchAll(form)].map(([, host = "", status, code, ms]) => ({
    host,
    status: status as Status,
    exitCode: code === undefined ? undefined : Number(code),
    durationMs: Number(ms),
  }));
}
