/** Text of items as their rows show it, and the places in it where words are found. Pure. */
import type { Token, Tokens } from "marked";
import type { Item, Step } from "../state/item";
import { lex } from "../text/blocks";
import { withoutFences } from "../text/CodeSpans";
import { changedLine } from "../text/changed-line";
import { diffLines } from "../text/diff";
import { editOf } from "../text/file-edit";
import { neutralize, plainOutput } from "../text/neutralize";
import { noticeText } from "../text/notices";
import { endText } from "./end-text";
import type { Row } from "./rows";
import { omitsOutput, shownOutput, showsOutput } from "./step-output";

/** Part of a row, which may be folded. */
export type Part = "text" | "reasoning" | "reason" | "command" | "diff" | "output" | "changes";

/** Elements of the parts in a row. */
export const PART_SELECTORS: Record<Part, string> = {
  text: ".markdown, .prompt > p:last-child, .said",
  reasoning: ".reasoning pre",
  reason: ".why",
  command: ".what",
  diff: ".diff",
  output: ".output",
  changes: ".changed",
};

/** A place where the words are. */
export interface Hit {
  row: string;
  part: Part;
  /** Number of hits before this one in the same part. */
  nth: number;
}

export interface PartText {
  part: Part;
  text: string;
}

/** Parts by item, because a search goes through all of them for each letter. */
const partsByItem = new WeakMap<Item, { machine: string | undefined; parts: readonly PartText[] }>();

/** Returns the parts of an item in the order of its row. `machine` is the name of the server's machine. */
export function partsOf(item: Item, machine: string | undefined): readonly PartText[] {
  const known = partsByItem.get(item);
  if (known && known.machine === machine) return known.parts;
  const parts = textsOf(item, machine).filter(({ text }) => text !== "");
  partsByItem.set(item, { machine, parts });
  return parts;
}

function textsOf(item: Item, machine: string | undefined): PartText[] {
  const text = (shown: string): PartText[] => [{ part: "text", text: shown }];
  switch (item.kind) {
    case "prompt":
      return text(neutralize(item.text));
    case "answer":
    case "complete":
      return text(plainMarkdown(item.text));
    case "reasoning":
      return [{ part: "reasoning", text: neutralize(item.text) }];
    case "step":
      return stepTexts(item);
    case "notice":
      return text(withoutFences(noticeText(item, machine)));
    case "end":
      return text(withoutFences(endText(item, machine) ?? ""));
    case "cleared":
      return [];
  }
}

function stepTexts(step: Step): PartText[] {
  // Its approval card shows it, and is in view.
  if (step.decided.state === "waiting" && !step.outcome) return [];
  const edit = editOf(step.tool, step.arguments);
  return [
    { part: "reason", text: neutralize(step.reason) },
    { part: "command", text: neutralize(step.command) },
    {
      part: "diff",
      text: edit
        ? diffLines(edit)
            .map(({ text }) => neutralize(text))
            .join("\n")
        : "",
    },
    { part: "output", text: showsOutput(step) ? plainOutput(shownOutput(step)) : "" },
    { part: "changes", text: changedLine(step.outcome?.changed ?? [], undefined, step.outcome?.hosts) },
  ];
}

/** Text of Markdown without its marks, one line per block. */
function plainMarkdown(text: string): string {
  return lex(text.replace(/\r\n|\r/g, "\n"))
    .map(plainToken)
    .join("\n");
}

function plainToken(token: Token): string {
  switch (token.type) {
    case "space":
    case "hr":
      return "";
    case "code":
    case "codespan":
      return token.text;
    case "list":
      return (token as Tokens.List).items.map((item) => item.tokens.map(plainToken).join("\n")).join("\n");
    case "blockquote":
      return ((token as Tokens.Blockquote).tokens ?? []).map(plainToken).join("\n");
    case "table": {
      const { header, rows } = token as Tokens.Table;
      return [header, ...rows]
        .flat()
        .map((cell) => plainTokens(cell.tokens))
        .join("\n");
    }
    case "html":
      return token.raw.replace(/<\/?cmd>/gi, "").trim();
    case "br":
      return "\n";
    default: {
      const { tokens, text, raw } = token as { tokens?: Token[]; text?: string; raw: string };
      return tokens ? plainTokens(tokens) : (text ?? raw);
    }
  }
}

function plainTokens(tokens: readonly Token[]): string {
  return tokens.map(plainToken).join("");
}

/** Expressions that find the words as they stand, or else each of them. */
export interface Finder {
  phrase: RegExp;
  /** One for each of several words; empty for one word. */
  words: RegExp[];
  any: RegExp;
}

/** Returns the expressions for the words, or undefined if there are none. The search ignores case. */
export function finderOf(words: string): Finder | undefined {
  const parts = words.split(/\s+/).filter(Boolean);
  if (parts.length === 0) return undefined;
  const escaped = parts.map((part) => part.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"));
  const expression = (source: string) => new RegExp(source, "giu");
  return {
    phrase: expression(escaped.join("\\s+")),
    words: escaped.length > 1 ? escaped.map(expression) : [],
    any: expression(escaped.join("|")),
  };
}

/** Hits, and the expression that found them. */
export interface Hits {
  all: readonly Hit[];
  found: RegExp;
}

/**
 * Returns the hits in the rows, oldest first. If the words are those of a search in all sessions and stand nowhere one
 * after the other, each of them is a hit in the rows that have them all.
 */
export function findHits(
  rows: readonly Row[],
  finder: Finder,
  ofList: boolean,
  machine: string | undefined,
): Hits {
  const all = hitsOf(rows, finder.phrase, machine);
  if (all.length > 0 || !ofList || finder.words.length === 0) return { all, found: finder.phrase };
  const fitting = rows.filter((row) => {
    if (row.kind !== "item") return false;
    const parts = partsOf(row.item, machine);
    return finder.words.every((word) => parts.some(({ text }) => text.search(word) >= 0));
  });
  return { all: hitsOf(fitting, finder.any, machine), found: finder.any };
}

/** Returns true for the row of a call of whose output the page has only parts. */
export function isOutputPartial(row: Row): boolean {
  return row.kind === "item" && row.item.kind === "step" && omitsOutput(row.item);
}

function hitsOf(rows: readonly Row[], expression: RegExp, machine: string | undefined): Hit[] {
  const hits: Hit[] = [];
  for (const row of rows) {
    if (row.kind !== "item") continue;
    for (const { part, text } of partsOf(row.item, machine)) {
      const { length } = text.match(expression) ?? [];
      for (let nth = 0; nth < (length ?? 0); nth += 1) hits.push({ row: row.id, part, nth });
    }
  }
  return hits;
}
