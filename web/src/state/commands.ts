/**
 * Commands typed on the page: the commands of the TUI and the REPL. Those that the page has run here; for the others, one
 * sentence says where on the page the same is done. Loaded with the first command.
 */
import * as labels from "../text/labels";
import type { ApprovalMode, ClientMessage, Effort, Mode, Skill, TokenCounts } from "../wire";
import type { PageRequest } from "./page-requests";
import type { Transcript } from "./transcript";
import { isSkill } from "./typed-calls";

/** A name that the composer completes, with its slash. */
export interface CommandName {
  name: string;
  arguments: string;
  description: string;
}

const EFFORTS: readonly Effort[] = ["none", "minimal", "low", "medium", "high", "xhigh"];
const APPROVAL_MODES: readonly ApprovalMode[] = ["each", "ask", "auto", "never"];
const MODES: readonly Mode[] = ["agent", "chat"];

/** The page's own commands. Skills and custom commands cannot replace them. */
export const PAGE_COMMANDS: readonly CommandName[] = [
  { name: "/approve", arguments: APPROVAL_MODES.join("|"), description: "Show or change the approval mode" },
  { name: "/auto", arguments: "[BOUNDS]", description: "Run without asking within bounds" },
  { name: "/background", arguments: "", description: "Move the running command to the background" },
  { name: "/clear", arguments: "", description: "Clear the history and the messages" },
  { name: "/compact", arguments: "[FOCUS]", description: "Summarize older messages to free context" },
  { name: "/cost", arguments: "", description: "Show the tokens used by the session" },
  { name: "/effort", arguments: EFFORTS.join("|"), description: "Set the reasoning effort" },
  { name: "/find", arguments: "[TEXT]", description: "Find text in this conversation" },
  { name: "/help", arguments: "", description: "Show the commands of the page" },
  { name: "/host", arguments: "", description: "Start a session on another host" },
  { name: "/init", arguments: "", description: "Have the model propose an AGENTS.md for this workspace" },
  { name: "/jobs", arguments: "[read ID|stop ID]", description: "List, read or stop background commands" },
  { name: "/mode", arguments: MODES.join("|"), description: "Switch between agent (with tools) and chat" },
  { name: "/model", arguments: "[PROVIDER/NAME]", description: "Show or change the model" },
  { name: "/new", arguments: "", description: "Start a new session" },
  { name: "/pause", arguments: "", description: "Pause after the current step" },
  { name: "/permissions", arguments: "", description: "List or revoke what is allowed for this session" },
  { name: "/resume", arguments: "", description: "Resume after a pause" },
  { name: "/retry", arguments: "", description: "Retry the last prompt with an empty history" },
  { name: "/sessions", arguments: "", description: "List and search sessions" },
  { name: "/shell", arguments: "", description: "Show or hide the session's terminal" },
  { name: "/status", arguments: "", description: "Show host, model and modes of the session" },
  { name: "/stop", arguments: "", description: "Stop the turn" },
  { name: "/theme", arguments: "", description: "Choose a theme in the settings" },
  { name: "/trust", arguments: "", description: "Show how to trust this workspace" },
  { name: "/undo", arguments: "[CALL]", description: "Undo the last change, or a call by its number" },
];

/** Maximum names offered at once. */
const OFFERED_MAX = 8;

/** Trusted files instruct the model, so only the user of the server's machine may trust them, not a browser. */
const TRUST =
  "A workspace cannot be trusted from the page. On the server's machine, type /trust in `sysop` or `sysop chat`, or start the server with --trust.";

/**
 * Answers to commands of the other front ends that are something else on the page, or not there. The name of a skill is
 * that skill.
 */
const ELSEWHERE: Record<string, string> = {
  output: "Use the link “full output” on the call's card.",
  plan: "Use the buttons of the proposed steps above the message box.",
  export: "To write a session to a file, use `sysop sessions export` on the server's machine.",
  fork: "A session is forked in `sysop`, not on the page.",
  routines: "Routines are listed and run in `sysop` and `sysop chat`.",
  run: "Routines are listed and run in `sysop` and `sysop chat`.",
  mcp: "MCP servers are listed by `sysop mcp list` on the server's machine.",
  keys: "Type the keys into the terminal (Alt+T).",
  exit: "Close the tab; the session keeps running.",
};

export type PageCommand =
  /** A message to the server; `what` is the title of its failure. */
  | { kind: "send"; message: ClientMessage; what: string; note?: string }
  /** A call of the user's own. */
  | { kind: "call"; message: ClientMessage; what: string }
  /** Reads a background job. */
  | { kind: "read"; jobId: number }
  | { kind: "act"; act: "stop" | "retry" | "newChat" }
  | { kind: "ask"; request: PageRequest }
  | { kind: "find"; words: string }
  /** A line for this user only; nothing is sent to the server. */
  | { kind: "tell"; text: string }
  /** No command of the page. It may be a skill or a custom command that the session does not know yet. */
  | { kind: "unknown"; word: string };

/**
 * Returns the command in the text, or undefined if the text is a prompt. As in `sysop_term::command`, the slash of a
 * command is followed only by letters; anything else is a path or a comment. `skills` can be invoked by name.
 */
export function parseCommand(
  text: string,
  transcript: Transcript,
  skills: readonly Skill[],
): PageCommand | undefined {
  const found = /^\/([A-Za-z]*)(?:\s+([\s\S]*))?$/.exec(text.trim());
  if (!found) return undefined;
  const [, name = "", after = ""] = found;
  const rest = after.trim();
  if (name === "init") return undefined; // the server expands it
  return (
    configuring(name, rest, transcript) ??
    acting(name, rest, transcript) ??
    telling(name, transcript) ??
    (isSkill(name, skills) ? undefined : elsewhere(name))
  );
}

function elsewhere(name: string): PageCommand {
  const text = Object.hasOwn(ELSEWHERE, name) ? ELSEWHERE[name] : undefined;
  return text === undefined ? { kind: "unknown", word: `/${name}` } : tell(text);
}

/** Commands that change how the session works. */
function configuring(name: string, rest: string, { phase, facts }: Transcript): PageCommand | undefined {
  const configure = (change: object, what: string): PageCommand => ({
    kind: "send",
    message: { type: "configure", ...change },
    what,
  });
  const oneOf = (words: readonly string[], change: object, what: string): PageCommand =>
    words.includes(rest) ? configure(change, what) : tell(`Type /${name} and one of ${words.join(", ")}.`);
  switch (name) {
    case "compact": {
      const message: ClientMessage = { type: "compact", ...(rest && { focus: rest }) };
      const what = "Context not compacted";
      return { kind: "send", message, what, ...(phase !== "idle" && { note: COMPACTS_LATER }) };
    }
    case "auto":
      return configure({ approve: "auto", ...(rest && { bounds: rest }) }, "Mode not changed");
    case "approve":
      if (rest === "" && facts) return tell(`The approval mode is ${facts.approve}.`);
      return oneOf(APPROVAL_MODES, { approve: rest }, "Mode not changed");
    case "effort":
      return oneOf(EFFORTS, { effort: rest }, "Effort not changed");
    case "mode":
      return oneOf(MODES, { mode: rest }, "Mode not changed");
    case "model":
      if (rest) return configure({ model: rest }, "Model not changed");
      return tell(`The model is ${facts?.model ?? "not known yet"}. Choose another one in the toolbar.`);
    default:
      return undefined;
  }
}

/** Commands that do something in the session or on the page. */
function acting(name: string, rest: string, transcript: Transcript): PageCommand | undefined {
  switch (name) {
    case "stop":
      return transcript.phase === "idle" ? tell("No turn is running.") : { kind: "act", act: "stop" };
    case "retry":
      return { kind: "act", act: "retry" };
    case "clear":
      return { kind: "act", act: "newChat" };
    case "pause":
      return { kind: "send", message: { type: "pause" }, what: "Cannot pause" };
    case "resume":
      return { kind: "send", message: { type: "resume" }, what: "Cannot resume" };
    case "background":
      return {
        kind: "send",
        message: { type: "tool.background" },
        what: "Cannot move the command to the background",
      };
    case "cmd":
      if (!rest) return tell("Type /cmd and a command, or ! and a command.");
      return {
        kind: "call",
        message: { type: "direct", command: rest, origin: "typed" },
        what: "Command not run",
      };
    case "undo":
      return undo(rest);
    case "jobs":
      return jobs(rest, transcript);
    case "find":
      return { kind: "find", words: rest };
    case "new":
    case "host":
      return { kind: "ask", request: "connect" };
    case "sessions":
      return { kind: "ask", request: "list" };
    case "shell":
      return { kind: "ask", request: "terminal" };
    case "theme":
      return { kind: "ask", request: "settings" };
    case "permissions":
      return { kind: "ask", request: "grants" };
    default:
      return undefined;
  }
}

function undo(rest: string): PageCommand {
  if (!/^([1-9]\d*)?$/.test(rest)) return tell("Type /undo, or /undo and the number of a call.");
  return {
    kind: "call",
    message: {
      type: "direct",
      tool: "undo",
      arguments: rest === "" ? {} : { step: Number(rest) },
      origin: "typed",
    },
    what: "Call not undone",
  };
}

function jobs(rest: string, { jobs: running }: Transcript): PageCommand {
  const [, verb, id] = /^(read|stop)\s+(\d+)$/.exec(rest) ?? [];
  const jobId = Number(id);
  if (verb === "stop") return { kind: "send", message: { type: "job.stop", jobId }, what: "Job not stopped" };
  if (verb === "read") return { kind: "read", jobId };
  if (rest) return tell("Type /jobs, /jobs read ID or /jobs stop ID.");
  if (running.length === 0)
    return tell("No background job is running. The output of an ended one is on its card.");
  return tell(running.map(({ jobId, host, command }) => `job ${jobId} on ${host}: ${command}`).join("\n"));
}

/** Commands that only answer. */
function telling(name: string, transcript: Transcript): PageCommand | undefined {
  if (name === "" || name === "help") return tell(help());
  if (name === "cost") return tell(cost(transcript.usage));
  if (name === "status") return tell(status(transcript));
  return name === "trust" ? tell(TRUST) : undefined;
}

function tell(text: string): PageCommand {
  return { kind: "tell", text };
}

/** Answer to `/compact` while a turn is running. */
const COMPACTS_LATER = "the context will be compacted after this step";

/** Answer to a name that neither the page nor the session knows. `skills` can be invoked by name. */
export function unknownCommand(word: string, skills: readonly Skill[]): string {
  const names = [...PAGE_COMMANDS, ...skills.map(({ name }) => ({ name: `/${name}` }))];
  // A short word is similar to many names.
  const editsMax = word.length <= "/cost".length ? 1 : 2;
  const lengthGap = (name: string) => Math.abs(name.length - word.length);
  const [meant] = names
    .map(({ name }) => ({ name, edits: editDistance(word, name) }))
    .filter(({ name, edits }) => edits <= editsMax || (word.length > 2 && name.startsWith(word)))
    .sort((a, b) => a.edits - b.edits || lengthGap(a.name) - lengthGap(b.name));
  return `Unknown command ${word}. ${meant ? `Did you mean ${meant.name}?` : "Type /help for a list."}`;
}

/** Minimum number of characters to insert, remove, replace or swap with the next one to turn a word into another. */
function editDistance(from: string, to: string): number {
  const table = [Array.from({ length: to.length + 1 }, (_, at) => at)];
  const at = (row: number, column: number) => table[row]?.[column] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= from.length; i += 1) {
    const row = [i];
    table.push(row);
    for (let j = 1; j <= to.length; j += 1) {
      const isSame = from[i - 1] === to[j - 1];
      const isSwapped = from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const swap = isSwapped ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY;
      row.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (isSame ? 0 : 1), swap));
    }
  }
  return at(from.length, to.length);
}

function help(): string {
  const lines = PAGE_COMMANDS.map(({ name, arguments: wanted, description }) =>
    wanted ? `${name} ${wanted}: ${description}` : `${name}: ${description}`,
  );
  return [
    ...lines,
    "!COMMAND: Run a command without the model",
    "Type / to complete skills and custom commands. Everything else is in the toolbar and under F1.",
  ].join("\n");
}

function cost({ inputTokens, outputTokens, cachedTokens }: TokenCounts): string {
  const cached = cachedTokens > 0 ? ` (${labels.tokens(cachedTokens)} cached)` : "";
  const tokens = `${labels.tokens(inputTokens)} tokens in${cached}, ${labels.tokens(outputTokens)} out so far`;
  return `${tokens}; for the cost, type /cost in the TUI or the REPL`;
}

function status({ facts, phase, jobs: running, grants }: Transcript): string {
  if (!facts) return "The session is not known yet.";
  const lines = [
    `host: ${facts.host}, ${facts.root}`,
    `model: ${facts.model}`,
    `mode: ${facts.mode}; approval mode: ${facts.approve}`,
    `turn: ${phase}`,
  ];
  if (running.length > 0) lines.push(`background jobs: ${running.length}`);
  if (grants.length > 0) {
    lines.push(`allowed for this session: ${grants.length}; type /permissions to see what`);
  }
  return lines.join("\n");
}

/** Returns the names that complete the text. */
export function completions(text: string, skills: readonly Skill[]): readonly CommandName[] {
  if (!/^\/\S*$/.test(text)) return [];
  const others = skills.map((skill) => ({
    name: `/${skill.name}`,
    arguments: skill.arguments ?? "",
    description: skill.description ?? "",
  }));
  const own = new Set(PAGE_COMMANDS.map(({ name }) => name));
  return [...PAGE_COMMANDS, ...others.filter(({ name }) => !own.has(name))]
    .filter(({ name }) => name.startsWith(text))
    .slice(0, OFFERED_MAX);
}
