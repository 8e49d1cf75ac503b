/** Rules for what a user types that the store needs before the code of commands is loaded. */
import type { SessionState, Skill } from "../wire";

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

/** Returns true if a skill or a custom command has this name, with or without its slash. */
export function isSkill(name: string, skills: readonly Skill[]): boolean {
  return skills.some((skill) => skill.name === name.replace(/^\//, ""));
}
