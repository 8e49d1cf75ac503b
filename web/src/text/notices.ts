/** Lines for messages that have no item of their own; like those of `sysop_core::transcript::event_notice`. */
import type { Notice } from "../state/item";
import type { ServerMessage, TodoItem } from "../wire";
import { fileSize, hostLabel, statusLabel, tokens } from "./labels";
import { neutralizeLine } from "./neutralize";

/** Maximum characters of a command or a task in a line. */
const LINE_CHARS_MAX = 100;

type NoticeMessage = Extract<
  ServerMessage,
  {
    type:
      | "context.compacted"
      | "instructions"
      | "prompt.expanded"
      | "job.finished"
      | "guard.armed"
      | "guard.ended"
      | "approval.given"
      | "undone";
  }
>;

/** A line without its place in the transcript. */
export type NoticeLine = Pick<Notice, "text" | "weight" | "by" | "host">;

/** Returns the line for a message, with the weight `warning` if a user should check something. */
export function logNotice(message: NoticeMessage): NoticeLine {
  switch (message.type) {
    case "context.compacted":
      return note(contextCompacted(message));
    case "instructions":
      return instructions(message);
    case "prompt.expanded":
      return note(promptExpanded(message));
    case "job.finished":
      return jobFinished(message);
    case "guard.armed":
      return {
        ...note(`guard armed on ${safe(message.host)}: rolls back in ${message.seconds} s unless confirmed`),
        host: message.host,
      };
    case "guard.ended":
      return { ...guardEnded(message), host: message.host };
    case "approval.given":
      return { ...note(approvalGiven(message.needed)), by: message.by };
    case "undone":
      return undone(message);
  }
}

/** Returns the text of a notice, in which the host has the name that the page uses elsewhere; see `hostLabel`. */
export function noticeText(
  { text, host }: Pick<Notice, "text" | "host">,
  machine: string | undefined,
): string {
  if (host === undefined) return text;
  return text.replace(` on ${safe(host)}`, () => ` on ${hostLabel(host, machine)}`);
}

const safe = neutralizeLine;
const note = (text: string): NoticeLine => ({ text, weight: "note" });
const warning = (text: string): NoticeLine => ({ text, weight: "warning" });

function contextCompacted(message: Extract<NoticeMessage, { type: "context.compacted" }>): string {
  const messages = message.replacedMessages ?? 0;
  const outputs = message.elided.length;
  const what = messages > 0 ? counted(messages, "message") : outputs > 0 ? counted(outputs, "output") : "";
  return `context compacted: ${what}${tokens(message.before)} → ${tokens(message.after)} tokens; details in the log`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}, `;
}

function instructions(message: Extract<NoticeMessage, { type: "instructions" }>): NoticeLine {
  const read = message.files.map(({ path, sent, bytes }) => {
    const cut = sent < bytes ? `, truncated to ${fileSize(sent)}` : "";
    return `${short(path)} (${fileSize(bytes)}${cut})`;
  });
  const untrusted = (message.untrusted ?? []).map(({ path, bytes }) => `${short(path)} (${fileSize(bytes)})`);
  const parts = read.length > 0 ? [`instructions: ${read.join(", ")}`] : [];
  for (const kind of ["skill", "command"] as const) {
    const names = (message.skills ?? []).filter((skill) => skill.kind === kind);
    if (names.length > 0) parts.push(`${kind}s: ${names.map(({ name }) => `/${safe(name)}`).join(" ")}`);
  }
  if (untrusted.length > 0) {
    parts.push(
      `not sent to the model, because this workspace is not trusted (see /trust): ${untrusted.join(", ")}`,
    );
  }
  parts.push(...(message.skipped ?? []).map((problem) => `skipped ${short(problem)}`));
  if (parts.length === 0) return note("instruction files are no longer sent to the model");
  return untrusted.length > 0 ? warning(parts.join("; ")) : note(parts.join("; "));
}

function promptExpanded(message: Extract<NoticeMessage, { type: "prompt.expanded" }>): string {
  const size = fileSize(new TextEncoder().encode(message.text).length);
  const count = message.commands?.length ?? 0;
  const commands = count === 0 ? "" : `, runs ${count} ${count === 1 ? "command" : "commands"} first`;
  return `prompt expanded (${size}${commands})`;
}

/** Returns the line for a new list of tasks: what was done, or else what has begun, or else how far the list is. */
export function taskNotice(before: readonly TodoItem[], after: readonly TodoItem[]): NoticeLine {
  if (after.length === 0) return note("task list cleared");
  const became = (state: TodoItem["state"]) => {
    const known = new Set(before.filter((item) => item.state === state).map(({ text }) => text));
    return after.filter((item) => item.state === state && !known.has(item.text)).map(({ text }) => text);
  };
  const [done, active] = [became("done"), became("active")];
  if (before.length === 0) return note(`tasks planned: ${after.length}`);
  if (done.length > 0)
    return note(`${done.length === 1 ? "task" : "tasks"} done: ${done.map(short).join("; ")}`);
  if (active.length > 0) return note(`task started: ${active.map(short).join("; ")}`);
  return note(`tasks changed: ${taskCount(after)} done`);
}

/** Returns the done and all tasks: `2/3`. */
export function taskCount(tasks: readonly TodoItem[]): string {
  return `${tasks.filter(({ state }) => state === "done").length}/${tasks.length}`;
}

function approvalGiven(needed: number): string {
  return needed === 2
    ? "allowed it; another person must allow it, too"
    : `allowed it; ${needed} different people must allow it in all`;
}

function jobFinished(message: Extract<NoticeMessage, { type: "job.finished" }>): NoticeLine {
  const { jobId, status, exitCode } = message;
  if (status === "unknown") return warning(`job ${jobId}: outcome unknown`);
  const code = exitCode === undefined ? "" : `, exit code ${exitCode}`;
  return note(`job ${jobId} ended: ${statusLabel(status)}${code}`);
}

function guardEnded(message: Extract<NoticeMessage, { type: "guard.ended" }>): NoticeLine {
  const host = safe(message.host);
  switch (message.how) {
    case "confirmed":
      return note(`guard on ${host} confirmed: change kept`);
    case "fired":
      return warning(`guard on ${host} fired: change rolled back`);
    default:
      return warning(`guard on ${host}: rollback status unknown; check the host`);
  }
}

function undone(message: Extract<NoticeMessage, { type: "undone" }>): NoticeLine {
  const { by } = message;
  const call = message.step === undefined ? "an earlier call" : `call ${message.step}`;
  switch (message.how) {
    case "exact":
      return { ...note(`undid ${call}`), by };
    case "partly":
      return { ...warning(`undid ${call} only in part; check the rest`), by };
    default:
      return { ...warning(`could not undo ${call}`), by };
  }
}

function short(text: string): string {
  const line = neutralizeLine(text.trim());
  return line.length > LINE_CHARS_MAX ? `${line.slice(0, LINE_CHARS_MAX)}…` : line;
}
