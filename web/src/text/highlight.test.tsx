import hljs from "highlight.js/lib/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { highlight, LANGUAGES } from "./highlight";

/** Returns the languages that a part of a grammar embeds. */
function embedded(part: unknown, seen = new Set<unknown>()): string[] {
  if (typeof part !== "object" || part === null || seen.has(part)) return [];
  seen.add(part);
  const own = "subLanguage" in part ? [part.subLanguage].flat().map(String) : [];
  return [...own, ...Object.values(part).flatMap((inner) => embedded(inner, seen))];
}

test.each(Object.entries(LANGUAGES))("%s has all names of its grammar, and what it embeds", (_, language) => {
  const { grammar, aliases = [], embeds = [] } = language;
  const definition = grammar(hljs);
  expect(aliases).toEqual(expect.arrayContaining(definition.aliases ?? []));
  const known = new Set(embedded(definition).filter((name) => name in LANGUAGES));
  expect([...known].sort()).toEqual([...embeds].sort());
});

test.each([
  ["sh", "if true", '<span class="hl-keyword">if</span>'],
  ["HTML", "<style>a { color: red }</style>", '<span class="hl-attribute">color</span>'],
  ["console", "$ if true", '<span class="hl-keyword">if</span>'],
  ["conf", "[a]", '<span class="hl-section">[a]</span>'],
])("code in %s is colored", (language, code, shown) => {
  expect(renderToStaticMarkup(<code>{highlight(code, language)}</code>)).toContain(shown);
});

test("code in an unknown language is not highlighted", () => {
  expect(highlight("if true", "text")).toBeUndefined();
  expect(highlight("if true", "constructor")).toBeUndefined();
});
