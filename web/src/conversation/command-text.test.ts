import { expect, test } from "vitest";
import type { Finding } from "../wire";
import { groupedFindings, partsOf } from "./CommandText";

const found = (start: number, end: number, risk: Finding["class"], why: string): Finding => ({
  start,
  end,
  class: risk,
  why,
});

test("a command is split at its findings, whose offsets are in bytes", () => {
  const parts = partsOf("rm -rf /ü; ls", [found(0, 10, "dangerous", "recursive delete")]);
  expect(parts).toEqual([
    { text: "rm -rf /ü", class: "dangerous", why: "recursive delete" },
    { text: "; ls", class: undefined, why: "" },
  ]);
});

test("where findings overlap, the worst class applies and all reasons are shown", () => {
  const parts = partsOf("eval x", [
    found(0, 6, "opaque", "eval"),
    found(5, 6, "dangerous", "x"),
    found(5, 99, "changes", "y"),
  ]);
  expect(parts).toEqual([
    { text: "eval ", class: "opaque", why: "eval" },
    { text: "x", class: "dangerous", why: "eval; x; y" },
  ]);
  expect(parts.map(({ text }) => text).join("")).toBe("eval x");
});

test("a byte order mark at the beginning of a part is kept, so that it is shown", () => {
  const parts = partsOf("ls; \ufeffrm x", [found(4, 11, "dangerous", "x")]);
  expect(parts.map(({ text }) => text)).toEqual(["ls; ", "\ufeffrm x"]);
});

test("findings about the same word are grouped, and the worst comes first", () => {
  const finding = (start: number, end: number, why: string, risk: "changes" | "dangerous" = "changes") =>
    ({ start, end, why, class: risk }) as const;
  const found = groupedFindings("é; sudo a; rm b; sudo c", [
    finding(4, 8, "runs as root"),
    finding(18, 22, "runs as root"),
    finding(12, 14, "makes changes"),
    finding(12, 14, "deletes", "dangerous"),
  ]);
  expect(found.map(({ parts, whys }) => `${parts}: ${whys}`)).toEqual([
    "rm: makes changes,deletes",
    "sudo: runs as root",
  ]);
});

test("parts with the same findings are one group", () => {
  const command = "touch a b; rm c";
  const of = (part: string, why: string) => {
    const start = command.indexOf(part);
    return found(start, start + part.length, "changes", why);
  };
  const findings = [
    of("a", "creates a file"),
    of("b", "creates a file"),
    of("rm", "deletes"),
    of("c", "deletes"),
  ];
  const whole = found(0, 0, "changes", "creates a file");
  const groups = groupedFindings(command, [...findings, of("c", "is recursive"), whole]);
  expect(groups.map(({ parts, whys }) => `${parts}: ${whys}`)).toEqual([
    "a,b: creates a file",
    "rm: deletes",
    "c: deletes,is recursive",
    ": creates a file",
  ]);
});
