/** Commands typed on the page: the commands of the TUI and the REPL that apply to it. */
import * as labels from "../text/labels";
import type { Effort, SessionState, Skill, TokenCounts } from "../wire";

/** A name that the composer completes, with its slash. */
export interface CommandName {
  name: string;
  arguments: string;
  description: string;
}

const EFFORTS: readonly Effort[] = ["none", "minimal", "low", "medium", "high", "xhigh"];

/** The page's own commands. Skills and custom commands cannot replace them. */
export const PAGE_COMMANDS: readonly CommandName[] = [
  { name: "/auto", arguments: "[BOUNDS]", description: "Run without asking within bounds" },
  { name: "/compact", arguments: "[FOCUS]", description: "Summarize older messages to free context" },
  { name: "/cost", arguments: "", description: "Show the tokens used by the session" },
  { name: "/effort", arguments: EFFORTS.join("|"), description: "Set the reasoning effort" },
  { name: "/help", arguments: "", description: "Show the commands of the page" },
  { name: "/init", arguments: "", description: "Have the model propose an AGENTS.md for this workspace" },
  { name: "/trust", arguments: "", description: "Show how to trust this workspace" },
];

/** Maximum names offered at once. */
const OFFERED_MAX = 8;

/** Trusted files instruct the model, so only the user of the server's machine may trust them, not a browser. */
const TRUST =
  "A workspace cannot be trusted from the page. On the server's machine, type /trust in `sysop` or `sysop chat`, or start the server with --trust.";

const JOBS =
  "Jobs are listed above the message box. The output of an ended job is on the card of its command.";

export type PageCommand =
  | { kind: "compact"; focus: string }
  | { kind: "effort"; level: Effort }
  /** `auto` mode, with bounds unless they are empty. The server parses the bounds. */
  | { kind: "auto"; bounds: string }
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
  usage: TokenCounts,
  skills: readonly Skill[],
): PageCommand | undefined {
  const found = /^\/([A-Za-z]*)(?:\s+([\s\S]*))?$/.exec(text.trim());
  if (!found) return undefined;
  const [, name = "", after = ""] = found;
  const rest = after.trim();
  switch (name) {
    case "":
    case "help":
      return { kind: "tell", text: help() };
    case "init":
      return undefined; // the server expands it
    case "compact":
      return { kind: "compact", focus: rest };
    case "auto":
      return { kind: "auto", bounds: rest };
    case "effort":
      if (EFFORTS.includes(rest)) return { kind: "effort", level: rest };
      return { kind: "tell", text: `Type /effort and one of ${EFFORTS.join(", ")}.` };
    case "cost":
      return { kind: "tell", text: cost(usage) };
    case "trust":
      return { kind: "tell", text: TRUST };
    case "jobs":
      return { kind: "tell", text: JOBS };
    default:
      return isSkill(name, skills) ? undefined : { kind: "unknown", word: `/${name}` };
  }
}

/**
 * Says why a call that the user asks for would not run now, and what to do; undefined if it would. See
 * `ui_text::typed_call_refusal`.
 */
export function callRefusal(phase: SessionState): string | undefined {
  switch (phase) {
    case "idle":
    case "paused":
      return undefined;
    case "waiting":
      return "not run: a proposal is waiting; answer it first";
    case "thinking":
    case "running":
      return "not run: a turn is running; wait for it, or stop it";
    case "stopping":
      return "not run: the turn is being stopped; wait for its end";
  }
}

/** Answer to `/compact` while a turn is running. */
export const COMPACTS_LATER = "the context will be compacted after this step";

/** Returns true if a skill or a custom command has this name, with or without its slash. */
export function isSkill(name: string, skills: readonly Skill[]): boolean {
  return skills.some((skill) => skill.name === name.replace(/^\//, ""));
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
