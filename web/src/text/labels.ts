/** Messages for events; those that all front ends show are identical to the messages of `sysop_core::ui_text`. */
import type { Step } from "../state/item";
import type { ModelProgress } from "../state/transcript";
import type {
  AutoLeft,
  Budget,
  BudgetLimits,
  Mode,
  PauseReason,
  RiskClass,
  Status,
  TokenCounts,
  TypedInput,
} from "../wire";
import { editOf, noteOf } from "./file-edit";
import { neutralizeLine } from "./neutralize";

export function duration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(Math.floor(milliseconds / 100) / 10).toFixed(1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.floor((milliseconds % 60_000) / 1_000)} s`;
}

/** Formats the time of a running command in whole seconds: `12 s`, `1 min 5 s`. */
export function elapsed(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1_000));
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1_000);
}

/** Formats the time of a countdown like the other front ends: `90s`, `18m`, `1h30m`. Minutes are rounded up. */
export function shortTime(milliseconds: number): string {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1_000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.ceil(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (hours === 0) return `${minutes}m`;
  return minutes % 60 === 0 ? `${hours}h` : `${hours}h${minutes % 60}m`;
}

/** Returns what is left of the bounds of `auto` mode: `12 commands, 18m, $0.31, @lab left`. */
export function boundsLabel({ commands, until, cost, hosts }: AutoLeft, now: number): string {
  const parts: string[] = [];
  if (commands !== undefined) parts.push(`${commands} ${commands === 1 ? "command" : "commands"}`);
  if (until !== undefined) parts.push(shortTime(until - now));
  if (cost !== undefined) parts.push(`$${cost.toFixed(2)}`);
  return neutralizeLine(`${[...parts, ...(hosts ?? [])].join(", ")} left`);
}

/** Returns the limits that are set, like the other front ends: `session $0.50, 200 k tokens; turn 20 minutes`. */
export function budgetLabel({ session, turn }: Budget): string {
  const limits = (name: string, { cost, tokens: most, minutes }: BudgetLimits): string => {
    const parts: string[] = [];
    if (cost !== undefined) parts.push(`$${Number(cost.toFixed(2)) === cost ? cost.toFixed(2) : cost}`);
    if (most !== undefined) parts.push(`${tokens(most)} tokens`);
    if (minutes !== undefined) parts.push(`${minutes} ${minutes === 1 ? "minute" : "minutes"}`);
    return parts.length > 0 ? `${name} ${parts.join(", ")}` : "";
  };
  return [limits("session", session), limits("turn", turn)].filter(Boolean).join("; ");
}

export function expiryLabel(expiresAt: number, now: number): string {
  const left = expiresAt - now;
  if (left <= 0) return "Expired.";
  const units: Record<string, string> = { h: "h", m: "min", s: "s" };
  const time = shortTime(left).replace(/(\d+)([hms])/g, (_, count, unit) => `${count} ${units[unit]} `);
  return `Expires in ${time.trim()}, then it is rejected.`;
}

export function fileSize(bytes: number): string {
  if (bytes === 1) return "1 byte";
  if (bytes < 1_000) return `${bytes} bytes`;
  const [unit, divisor] = bytes < 1_000_000 ? ["kB", 1_000] : ["MB", 1_000_000];
  return `${(Math.floor((bytes * 10) / Number(divisor)) / 10).toFixed(1)} ${unit}`;
}

export function tokens(count: number): string {
  if (count < 10_000) return String(count);
  if (count < 1_000_000) return `${Math.floor(count / 1_000)} k`;
  return `${(Math.floor(count / 100_000) / 10).toFixed(1)} M`;
}

/** Formats a turn's tokens; empty if the model's server reported none. */
export function usage({ inputTokens, outputTokens }: TokenCounts): string {
  return inputTokens + outputTokens > 0 ? `${tokens(inputTokens)} in, ${tokens(outputTokens)} out` : "";
}

/** Minimum time since the first token, in milliseconds, before a rate is shown. */
const RATE_MS_MIN = 500;

/** Returns the progress of a model call; empty if nothing is known. See `ModelProgress::summary` in sysop-core. */
export function progressLabel({ prompt, received, receivingMs }: ModelProgress): string {
  if (received > 0) {
    const rate = receivingMs >= RATE_MS_MIN ? Math.floor((received * 1_000) / receivingMs) : 0;
    const count = `${tokens(received)} ${received === 1 ? "token" : "tokens"} received`;
    return rate > 0 ? `${count}, ${rate} per second` : count;
  }
  if (!prompt || prompt.total <= 0) return "";
  const done = Math.min(prompt.done, prompt.total);
  const percent = Math.floor((done * 100) / prompt.total);
  return `reading the prompt: ${tokens(done)} of ${tokens(prompt.total)} tokens (${percent} %)`;
}

const CLASSES: Record<RiskClass, string> = {
  read_only: "read-only",
  reads_remote: "reads over the network",
  changes: "makes changes",
  opaque: "effect unknown",
  reads_secret: "reads secrets",
  dangerous: "dangerous",
  lockout: "may lock you out",
};

export function riskLabel(risk: RiskClass): string {
  return CLASSES[risk] ?? risk;
}

/** A phrase around a command, which is shown as code. */
export interface CodePhrase {
  before: string;
  code: string;
  after: string;
}

/** Maximum characters of a command that the scope of a proposal repeats. */
export const REPEATED_CHARS_MAX = 80;

export function statusLabel(status: Status): string {
  switch (status) {
    case "timeout":
      return "timed out";
    case "cancelled":
      return "canceled";
    case "unknown":
      return "outcome unknown: the connection or the output was lost; not run again";
    default:
      return status;
  }
}

/** Returns the result of a background job; see `EndedJob::result` in sysop-core. */
export function jobLabel(status: Status): string {
  return status === "unknown"
    ? "outcome unknown: sysop or the connection ended while it ran"
    : statusLabel(status);
}

/** Returns a symbol for a status, so that color is not needed to tell it. */
export function statusSign(status: Status): string {
  if (status === "ok") return "✓";
  return status === "failed" || status === "timeout" ? "✗" : "■";
}

/** Describes a pause. `interruptsCall` is true if a command was running when the server stopped. */
export function pauseLabel(reason: PauseReason, interruptsCall: boolean): string {
  switch (reason) {
    case "loop":
      return "paused: the model repeated the same call 3 times";
    case "interrupted":
      return interruptsCall
        ? "paused: the server stopped during this turn; the running command may not have finished"
        : "paused: the server stopped during this turn; no command was running";
    case "budget":
      return "paused: the budget is spent; resume to grant it once more";
    default:
      return "paused";
  }
}

/** Describes a mode change. */
export function modeLabel(mode: Mode): string {
  return mode === "chat" ? "chat mode: the next turn has no tools" : "agent mode: the next turn has tools";
}

/** Describes a user's input into the terminal, as a phrase that follows the user's name. */
export function typedLabel(typed: TypedInput): string {
  const short = (prompt: string) => {
    const line = neutralizeLine(prompt.trim().split("\n").at(-1)?.trim() ?? "");
    return line.length > 60 ? `${line.slice(0, 60)}…` : line;
  };
  if ("activity" in typed) {
    const { keys, seconds } = typed.activity;
    const time = seconds > 0 ? ` in ${seconds} s` : "";
    return `used the terminal: ${keys} ${keys === 1 ? "key" : "keys"}${time}`;
  }
  if ("keys" in typed) return `typed into the terminal: ${neutralizeLine(typed.keys.text)}`;
  if ("secret" in typed && typed.secret.prompt.trim() === "") return "entered a password";
  if ("secret" in typed) return `entered a password for “${short(typed.secret.prompt)}”`;
  if ("answer" in typed) {
    return `answered “${short(typed.answer.prompt)}”: ${neutralizeLine(typed.answer.text)}`;
  }
  return "typed into the terminal";
}

/**
 * Name of the host that commands run on. `machine` is the name of the server's machine, which is not the one that shows
 * the page; see `useMachine`.
 */
export function hostLabel(host: string, machine = ""): string {
  const names = host.split(",").map((name) => name.trim().replace(/^ssh:\/\//, ""));
  const one = (name: string) => {
    if (name === "local") return neutralizeLine(machine) || "the server";
    const at = name.lastIndexOf("@");
    return neutralizeLine(at > 0 ? `${name.slice(at + 1)} as ${name.slice(0, at)}` : name);
  };
  const [first] = names;
  if (names.length === 1 && first !== undefined) return one(first);
  return `${names.length} hosts: ${foldNames(names.map(one))}`;
}

/** Minimum number of consecutive hosts that are written as a range. */
const RANGE_HOSTS_MIN = 3;

/** Joins host names; three or more with consecutive numbers become a range: `app[01-20]`, as in the core. */
export function foldNames(names: readonly string[]): string {
  // The last number of the first label, so that addresses stay whole.
  const split = (name = "") => /^((?:.*@)?[^.:@]*?[^.:@\d])(\d+)([^.:\d]*(?:[.:].*)?)$/.exec(name);
  const parts: string[] = [];
  for (let at = 0; at < names.length; ) {
    const first = split(names[at]);
    let last = first;
    let end = at + 1;
    for (let next = split(names[end]); last && next && precedes(last, next); next = split(names[end])) {
      last = next;
      end += 1;
    }
    if (first && last && end - at >= RANGE_HOSTS_MIN) {
      parts.push(`${first[1]}[${first[2]}-${last[2]}]${first[3]}`);
      at = end;
    } else {
      parts.push(names[at] ?? "");
      at += 1;
    }
  }
  return parts.join(", ");
}

function precedes(one: RegExpExecArray, next: RegExpExecArray): boolean {
  const [, before, digits = "", after] = one;
  const padded = (text: string) => text.length > 1 && text.startsWith("0");
  const following = next[2] ?? "";
  return (
    before === next[1] &&
    after === next[3] &&
    Number(digits) + 1 === Number(following) &&
    (following.length === digits.length || !(padded(digits) || padded(following)))
  );
}

/** Name of the host that commands run on, shortened for a tab; see `hostLabel`. */
export function shortHostLabel(host: string, machine = ""): string {
  const names = host.split(",");
  return names.length === 1 ? hostLabel(host, machine) : `${names.length} hosts`;
}

/** Matches text of Markdown tables: a rule, or the beginning or end of a row. */
const TABLE = /\|\s*:?-{2,}|^\s*\||\|\s+\||\|\s*$/;

/** Returns an excerpt of a message in one line, without the signs of Markdown tables and code. */
export function plainExcerpt(excerpt: string): string {
  const isTable = TABLE.test(excerpt);
  const parts = excerpt.split(/(`[^`]*`|<cmd>.*?<\/cmd>)/s).map((part, at) => {
    if (at % 2 === 1 || !isTable) return part;
    return part.replace(/(?<=\|)(?:\s*:?-{2,}:?\s*(?:\||$))+/g, " ").replaceAll("|", " ");
  });
  return neutralizeLine(
    parts
      .join("")
      .replace(/<\/?cmd>|`/g, "")
      .replace(/ {2,}/g, " ")
      .trim(),
  );
}

/** Maximum characters of an argument in a short form. */
const SHORT_ARGUMENT_CHARS_MAX = 60;

/** Names of the argument in which the model gives its reason for a call. */
const REASONS = ["reason", "reasoning"];

/** Tools whose call is described by its path alone. */
const FILE_VERBS: Record<string, string> = {
  read_file: "Read",
  write_file: "Write",
  write_file_chunk: "Write",
  edit_file: "Edit",
  view_image: "View",
};

function pathOf(args: unknown): string | undefined {
  const { path } = (args ?? {}) as { path?: unknown };
  return typeof path === "string" && path !== "" ? path : undefined;
}

/**
 * Formats a call in one line: `Edit src/main.py`, and for tools that the page does not know `deploy("web")` or
 * `deploy(to="web", dry=true)`. Arguments are chosen by name, because a model chooses their order. The model's reason is
 * not counted as an argument.
 */
export function callSummary(name: string, args: unknown): string {
  if (name === "undo") return undoSummary(args);
  const path = pathOf(args);
  const verb = FILE_VERBS[name];
  if (verb !== undefined && path !== undefined) return neutralizeLine(`${verb} ${path}`);
  if (typeof args !== "object" || args === null || Array.isArray(args)) return neutralizeLine(`${name}(...)`);
  const shown = Object.entries(args).filter(([key]) => !REASONS.includes(key));
  const { command } = args as { command?: unknown };
  if (typeof command === "string") {
    return neutralizeLine(`${name}(${shortArgument(command)}${shown.length > 1 ? ", ..." : ""})`);
  }
  const values = shown.map(([key, value]) => (shown.length > 1 ? `${key}=` : "") + shortArgument(value));
  return neutralizeLine(`${name}(${values.join(", ")})`);
}

function shortArgument(value: unknown): string {
  const written = JSON.stringify(value) ?? "";
  return written.length > SHORT_ARGUMENT_CHARS_MAX
    ? `${written.slice(0, SHORT_ARGUMENT_CHARS_MAX)}…`
    : written;
}

/** Maximum number of files that the text of an undo names. */
const FILES_NAMED_MAX = 3;

/** An undo: the call or the last change, and the files that it restores, without the ids that it carries. */
function undoSummary(args: unknown): string {
  const { step, changes } = (args ?? {}) as { step?: unknown; changes?: unknown };
  const what = typeof step === "number" ? `undo call ${step}` : "undo the file edits of the last turn";
  const paths = (Array.isArray(changes) ? changes : []).map(
    (change) => (change as { path?: unknown } | null)?.path,
  );
  const files = [...new Set(paths.filter((path) => typeof path === "string"))];
  if (files.length === 0) return what;
  const more = files.length > FILES_NAMED_MAX ? ` and ${files.length - FILES_NAMED_MAX} more` : "";
  return `${what}: ${files.slice(0, FILES_NAMED_MAX).map(neutralizeLine).join(", ")}${more}`;
}

/** The command whose changes an undo reverts, or else a phrase for them. */
export function undoneWhat(args: unknown): CodePhrase {
  const { undoes } = (args ?? {}) as { undoes?: unknown };
  if (typeof undoes === "string" && undoes) {
    const line = neutralizeLine(undoes.trim());
    const cut = line.length > REPEATED_CHARS_MAX ? `${line.slice(0, REPEATED_CHARS_MAX)}…` : line;
    return { before: "", code: cut, after: "" };
  }
  const before = undoSummary(args).slice("undo ".length);
  return { before, code: "", after: "" };
}

/** Hosts of the session that an undo changes, or all if its arguments name none; as `hosts_of_call` in the core. */
export function undoneHosts(args: unknown, hosts: string): string {
  const { records, changes } = (args ?? {}) as { records?: unknown; changes?: unknown };
  const field = (list: unknown, name: "host" | "path") =>
    (Array.isArray(list) ? list : []).map((value) =>
      String((value as Record<string, unknown> | null)?.[name]),
    );
  const [named, paths] = [field(records, "host"), field(changes, "path")];
  const changed = hosts
    .split(",")
    .map((host) => host.trim())
    .filter((host) => named.includes(host) || paths.some((path) => path.startsWith(`${host}:`)));
  return changed.length > 0 ? changed.join(",") : hosts;
}

/**
 * Question and answer of a proposal: a file tool applies a change, an undo undoes one, everything else is run. `place`
 * is the label of the host.
 */
export function approvalWords(
  { tool, arguments: args, cardKind }: Pick<Step, "tool" | "arguments" | "cardKind">,
  place: string,
): { question: string; yes: string } {
  if (tool === "undo") {
    const { before, code } = undoneWhat(args);
    return { question: `Undo ${code || before}`, yes: "Undo" };
  }
  if (noteOf(tool, args) !== undefined) {
    return { question: `Save this note about ${place}`, yes: "Save" };
  }
  if (cardKind === "send_keys") return { question: "Press these keys", yes: "Press keys" };
  return editOf(tool, args)
    ? { question: "Apply this change", yes: "Apply" }
    : { question: "Approve this command", yes: "Run" };
}

/** Tells the origin of a call that no model proposed, and who asked for it. */
export function originLabel(
  { tool, origin, askedBy }: Pick<Step, "tool" | "origin" | "askedBy">,
  nameOf: (name: string) => string,
): string | undefined {
  const by = askedBy === undefined ? undefined : nameOf(askedBy);
  const started = by === undefined ? "" : `, started by ${by}`;
  switch (origin) {
    case "model":
      return undefined;
    case "typed":
      return `${tool === "undo" ? "requested" : "typed"} by ${by ?? "a user"}`;
    case "routine":
      return `from a routine${started}`;
    case "plan":
      return `from the plan${started}`;
    case "mcp_client":
      return `from an MCP client${started}`;
  }
}

/** Formats a past time for a list. */
export function relativeTime(then: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - then) / 1000));
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 7 * 86_400) return `${Math.floor(seconds / 86_400)} d ago`;
  return new Date(then).toISOString().slice(0, 10);
}
