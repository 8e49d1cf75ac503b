import { expect, test } from "vitest";
import type { Grant } from "../wire";
import { grantPhrase, revokedGrant } from "./grants";

const exact: Grant = { exact: { command: "touch x" } };
const program: Grant = { program: { program: "git", subcommand: "status" } };
const simple: Grant = { program: { program: "ls", subcommand: null } };
const tool: Grant = { tool: { name: "write_file" } };
const edits: Grant = { tool: { name: "edit_file" } };

test("grants are described in the words of the other front ends", () => {
  const line = (grant: Grant) => {
    const { before, code, after } = grantPhrase(grant);
    return `${before}${code}${after}`;
  };
  expect([exact, program, simple, tool, edits].map(line)).toEqual([
    "exactly touch x, in the directory where it was allowed",
    "any simple git status …, run in this directory",
    "any simple ls … that stays below this directory",
    "all writes here, except to protected files",
    "all edits here, except to protected files",
  ]);
});

test("a grant is revoked under its own name", () => {
  expect([exact, program, simple, tool].map(revokedGrant)).toEqual([
    { kind: "exact", command: "touch x" },
    { kind: "program", program: "git", subcommand: "status" },
    { kind: "program", program: "ls" },
    { kind: "tool", name: "write_file" },
  ]);
});
