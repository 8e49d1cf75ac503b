/** Grants of a session, in the words of the other front ends. */
import type { Grant, RevokedGrant } from "../wire";
import type { CodePhrase } from "./labels";

/** Describes a grant in full; see `session_text::grant_line`. */
export function grantPhrase(grant: Grant): CodePhrase {
  if ("exact" in grant) {
    return {
      before: "exactly ",
      code: grant.exact.command,
      after: ", in the directory where it was allowed",
    };
  }
  if ("program" in grant) {
    const { program, subcommand } = grant.program;
    return subcommand
      ? { before: "any simple ", code: `${program} ${subcommand} …`, after: ", run in this directory" }
      : { before: "any simple ", code: `${program} …`, after: " that stays below this directory" };
  }
  if (grant.tool.name === "edit_file") {
    return { before: "all edits here, except to protected files", code: "", after: "" };
  }
  if (grant.tool.name === "write_file") {
    return { before: "all writes here, except to protected files", code: "", after: "" };
  }
  return { before: "any ", code: grant.tool.name, after: " call here, except on protected files" };
}

/** The same grant as a client names it to revoke it. */
export function revokedGrant(grant: Grant): RevokedGrant {
  if ("exact" in grant) return { kind: "exact", ...grant.exact };
  if ("tool" in grant) return { kind: "tool", ...grant.tool };
  const { program, subcommand } = grant.program;
  return { kind: "program", program, ...(subcommand && { subcommand }) };
}
