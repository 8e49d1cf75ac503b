/** Lines for messages that have no item of their own; the same lines as in `sysop_core::transcript::event_notice`. */
import type { ServerMessage } from "../wire";
import { fileSize, statusLabel, tokens } from "./labels";
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
      | "todo"
      | "job.started"
      | "job.finished"
      | "guard.armed"
      | "guard.ended"
      | "approval.given"
      | "undone";
  }
>;

interface Notice {
  text: string;
  weight: "note" | "warning";
}

/** Returns the line for a message, with the weight `warning` if a user should check something. */
export function logNotice(message: NoticeMessage): Notice {
  switch (message.type) {
    case "context.compacted":
      return note(contextCompacted(message));
    case "instructions":
      return instructions(message);
    case "prompt.expanded":
      return note(promptExpanded(message));
    case "todo":
      return note(todo(message.items));
    case "job.started":
      return note(`job ${message.jobId} started on ${safe(message.host)}: ${short(message.command)}`);
    case "job.finished":
      return jobFinished(message);
    case "guard.armed":
      return note(
        `guard armed on ${safe(message.host)}: rolls back in ${message.seconds} s unless confirmed`,
      );
    case "guard.ended":
      return guardEnded(message);
    case "approval.given":
      return note(
        `${safe(message.by)} approved ${safe(message.toolCallId)}; ${message.needed} approvals by different people are required`,
      );
    case "undone":
      return undone(message);
  }
}

/** Maximum items of a todo list to show. */
const ITEMS_MAX = 20;
const MARKS = { pending: " ", active: ">", done: "x" };

const safe = neutralizeLine;
const note = (text: string): Notice => ({ text, weight: "note" });
const warning = (text: string): Notice => ({ text, weight: "warning" });

function contextCompacted(message: Extract<NoticeMessage, { type: "context.compacted" }>): string {
  const messages = message.replacedMessages ?? 0;
  const outputs = message.elided.length;
  const what = messages > 0 ? counted(messages, "message") : outputs > 0 ? counted(outputs, "output") : "";
  return `context compacted: ${what}${tokens(message.before)} → ${tokens(message.after)} tokens; details in the log`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}, `;
}

function instructions(message: Extract<NoticeMessage, { type: "instructions" }>): Notice {
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

function todo(items: Extract<NoticeMessage, { type: "todo" }>["items"]): string {
  if (items.length === 0) return "todo list cleared";
  const done = items.filter(({ state }) => state === "done").length;
  const list = items.slice(0, ITEMS_MAX).map(({ text, state }) => `\n[${MARKS[state]}] ${short(text)}`);
  const more = items.length > ITEMS_MAX ? `\n… and ${items.length - ITEMS_MAX} more` : "";
  return `todo: ${done} of ${items.length} done${list.join("")}${more}`;
}

function jobFinished(message: Extract<NoticeMessage, { type: "job.finished" }>): Notice {
  const { jobId, status, exitCode } = message;
  if (status === "unknown") return warning(`job ${jobId}: outcome unknown`);
  const code = exitCode === undefined ? "" : `, exit code ${exitCode}`;
  return note(`job ${jobId} ended: ${statusLabel(status)}${code}`);
}

function guardEnded(message: Extract<NoticeMessage, { type: "guard.ended" }>): Notice {
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

function undone(message: Extract<NoticeMessage, { type: "undone" }>): Notice {
  const by = safe(message.by);
  const step = message.step === undefined ? "an earlier step" : `step ${message.step}`;
  switch (message.how) {
    case "exact":
      return note(`${by} undid ${step}`);
    case "partly":
      return warning(`${by} partly undid ${step}; check the rest`);
    default:
      return warning(`${by} could not undo ${step}`);
  }
}

function short(text: string): string {
  const line = neutralizeLine(text.trim());
  return line.length > LINE_CHARS_MAX ? `${line.slice(0, LINE_CHARS_MAX)}…` : line;
}
