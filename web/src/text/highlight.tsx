/**
 * Syntax highlighting, loaded with the first code block. A grammar is registered when it is first needed, because
 * registering all of them blocks a phone for longer than everything else here.
 */
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import lua from "highlight.js/lib/languages/lua";
import makefile from "highlight.js/lib/languages/makefile";
import nginx from "highlight.js/lib/languages/nginx";
import perl from "highlight.js/lib/languages/perl";
import powershell from "highlight.js/lib/languages/powershell";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import shell from "highlight.js/lib/languages/shell";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight, type LanguageFn } from "lowlight";
import type { ReactNode } from "react";
import { SafeText } from "./Code";

interface Language {
  grammar: LanguageFn;
  /** Other names. */
  aliases?: readonly string[];
  /** Languages of code within code. */
  embeds?: readonly string[];
}

export const LANGUAGES: Readonly<Record<string, Language>> = {
  bash: { grammar: bash, aliases: ["sh", "zsh", "ash", "dash"] },
  c: { grammar: c, aliases: ["h"] },
  css: { grammar: css },
  diff: { grammar: diff, aliases: ["patch"] },
  dockerfile: { grammar: dockerfile, aliases: ["docker"], embeds: ["bash"] },
  go: { grammar: go, aliases: ["golang"] },
  ini: { grammar: ini, aliases: ["toml", "conf", "systemd"] },
  java: { grammar: java, aliases: ["jsp"] },
  javascript: { grammar: javascript, aliases: ["js", "jsx", "mjs", "cjs"], embeds: ["xml", "css"] },
  json: { grammar: json, aliases: ["jsonc", "json5"] },
  lua: { grammar: lua, aliases: ["pluto"] },
  makefile: { grammar: makefile, aliases: ["mk", "mak", "make"] },
  nginx: { grammar: nginx, aliases: ["nginxconf"] },
  perl: { grammar: perl, aliases: ["pl", "pm"] },
  powershell: { grammar: powershell, aliases: ["pwsh", "ps", "ps1"] },
  python: { grammar: python, aliases: ["py", "gyp", "ipython"] },
  ruby: { grammar: ruby, aliases: ["rb", "gemspec", "podspec", "thor", "irb"] },
  rust: { grammar: rust, aliases: ["rs"] },
  shell: { grammar: shell, aliases: ["console", "shellsession"], embeds: ["bash"] },
  sql: { grammar: sql },
  typescript: { grammar: typescript, aliases: ["ts", "tsx", "mts", "cts"], embeds: ["xml", "css"] },
  xml: {
    grammar: xml,
    aliases: ["html", "xhtml", "rss", "atom", "xjb", "xsd", "xsl", "plist", "wsf", "svg"],
    embeds: ["css", "javascript"],
  },
  yaml: { grammar: yaml, aliases: ["yml"], embeds: ["ruby"] },
};

const lowlight = createLowlight();
const nameOf = new Map(
  Object.entries(LANGUAGES).flatMap(([name, { aliases = [] }]) =>
    [name, ...aliases].map((alias) => [alias, name] as const),
  ),
);

type Root = ReturnType<typeof lowlight.highlight>;
type Child = Root["children"][number];

/** Returns highlighted code; undefined if the language is unknown. */
export function highlight(text: string, language: string): ReactNode | undefined {
  const name = nameOf.get(language.toLowerCase());
  if (name === undefined) return undefined;
  register(name);
  return lowlight.highlight(name, text, { prefix: "hl-" }).children.map(node);
}

function register(name: string): void {
  const language = LANGUAGES[name];
  if (!language || lowlight.registered(name)) return;
  lowlight.register(name, language.grammar);
  for (const inner of language.embeds ?? []) register(inner);
}

function node(child: Child, at: number): ReactNode {
  if (child.type === "text") return <SafeText key={at} text={child.value} />;
  if (child.type !== "element") return null;
  const { className } = child.properties;
  const name = Array.isArray(className) ? className.join(" ") : undefined;
  return (
    <span key={at} className={name}>
      {child.children.map((inner, place) => node(inner as Child, place))}
    </span>
  );
}
