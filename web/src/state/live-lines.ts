/** Lines of the server about work in progress: notices that are not in the log, and results of single hosts. */
import type { Status } from "../wire";
import type { HostEnd } from "./item";

/**
 * Returns true if the notice says what is done before or after a command; see `tell_progress` in sysop-host. In a
 * session with several hosts, it begins with the name of one.
 */
export function isProgress(text: string): boolean {
  return /^(.+: )?(saving the state of|restoring|comparing) files( on .+)?…$/.test(text);
}

/** Returns true if the notice says that a request failed and is tried again; see `retrying` in sysop-core. */
export function isRetrying(text: string): boolean {
  return /^retrying in .+, attempt \d+ of \d+: /.test(text);
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
