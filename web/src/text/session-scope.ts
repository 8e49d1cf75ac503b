/** Calls that the answer "allow for this session" covers, in words. */
import type { Grant } from "../wire";
import { type CodePhrase, REPEATED_CHARS_MAX } from "./labels";
import { neutralizeLine } from "./neutralize";

/** Scope of "for this session". */
export function covers(grant: Grant): CodePhrase {
  const here = "in this directory";
  const phrase = (before: string, code: string, after: string): CodePhrase => ({
    before,
    code: neutralizeLine(code),
    after,
  });
  if ("exact" in grant) return phrase("exactly", grant.exact.command, here);
  if ("program" in grant) {
    const { program, subcommand } = grant.program;
    return subcommand
      ? phrase("any simple", `${program} ${subcommand} …`, "run in this directory")
      : phrase("any simple", `${program} …`, "that stays below this directory");
  }
  if ("tool" in grant) return phrase("any call of", grant.tool.name, "here, except on protected files");
  return phrase("as described by the server", "", "");
}

/** Scope of "for this session" on a card that shows the command, so that a long one need not be repeated. */
export function coversShown(grant: Grant, shown: string): CodePhrase {
  const repeats = "exact" in grant && grant.exact.command === shown;
  const long = shown.length > REPEATED_CHARS_MAX || shown.includes("\n");
  return repeats && long
    ? { before: "this exact command in this directory", code: "", after: "" }
    : covers(grant);
}
