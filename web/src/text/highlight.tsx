/** Syntax highlighting, loaded with the first code block. */
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
import { createLowlight } from "lowlight";
import type { ReactNode } from "react";
import { SafeText } from "./Code";

const lowlight = createLowlight({
  bash,
  c,
  css,
  diff,
  dockerfile,
  go,
  ini,
  java,
  javascript,
  json,
  lua,
  makefile,
  nginx,
  perl,
  powershell,
  python,
  ruby,
  rust,
  shell,
  sql,
  typescript,
  xml,
  yaml,
});
lowlight.registerAlias({ ini: ["conf", "systemd"], bash: ["zsh", "ash", "dash"] });

type Root = ReturnType<typeof lowlight.highlight>;
type Child = Root["children"][number];

/** Returns highlighted code; undefined if the language is unknown. */
export function highlight(text: string, language: string): ReactNode | undefined {
  if (!lowlight.registered(language)) return undefined;
  return lowlight.highlight(language, text, { prefix: "hl-" }).children.map(node);
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
