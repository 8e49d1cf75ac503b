/**
 * Makes untrusted text safe to display: control, bidirectional and invisible characters are shown instead of obeyed, by
 * the rules of `sysop_core::text`. Preact already escapes HTML.
 */

const INVISIBLE =
  "\\u{ad}\\u{34f}\\u{61c}\\u{115f}\\u{1160}\\u{3164}\\u{ffa0}\\u{17b4}\\u{17b5}\\u{180b}-\\u{180f}\\u{200b}-\\u{200f}" +
  "\\u{2028}-\\u{202e}\\u{2060}-\\u{206f}\\u{fe00}-\\u{fe0d}\\u{feff}\\u{fff0}-\\u{fffb}\\u{1d173}-\\u{1d17a}" +
  "\\u{e0000}-\\u{e0fff}";
const ODD_BLANKS = "\\u{a0}\\u{1680}\\u{2000}-\\u{200a}\\u{202f}\\u{205f}\\u{2800}\\u{3000}";
/** Neutralizes multi-line text; newline and tab are kept. */
const SHOWN = new RegExp(`[\\u{0}-\\u{8}\\u{b}-\\u{1f}\\u{7f}-\\u{9f}${INVISIBLE}]`, "gu");
/** Neutralizes one line of text in which every byte matters. */
const ODD = new RegExp(`[\\u{0}-\\u{1f}\\u{7f}-\\u{9f}\\u{fe0e}\\u{fe0f}${INVISIBLE}${ODD_BLANKS}]`, "gu");

function show(sign: string): string {
  switch (sign) {
    case "\r":
      return "\\r";
    case "\n":
      return "\\n";
    case "\t":
      return "\\t";
    default: {
      const code = sign.codePointAt(0) ?? 0;
      return code <= 0xff ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
    }
  }
}

/** Joins two emoji into one, as in a family; it hides nothing there. */
const JOINS_EMOJI =
  /(?<=\p{Extended_Pictographic}[\u{fe0f}\u{1f3fb}-\u{1f3ff}]?)\u{200d}(?=\p{Extended_Pictographic})/uy;

function joinsEmoji(whole: string, at: number): boolean {
  JOINS_EMOJI.lastIndex = at;
  return whole[at] === "\u200d" && JOINS_EMOJI.test(whole);
}

/** Neutralizes multi-line text. The carriage return of `\r\n` is dropped. */
export function neutralize(text: string): string {
  return text
    .replace(/\r\n/g, "\n")
    .replace(SHOWN, (sign, at: number, whole: string) => (joinsEmoji(whole, at) ? sign : show(sign)));
}

/** Characters of no width that reorder nothing; in prose they can hide nothing but themselves. */
const ZERO_WIDTH = /[\u{ad}\u{200b}-\u{200d}\u{2060}\u{feff}]/gu;

/** Neutralizes prose: zero-width characters are omitted, unless they join emoji. */
export function neutralizeProse(text: string): string {
  return neutralize(
    text.replace(ZERO_WIDTH, (sign, at: number, whole: string) => (joinsEmoji(whole, at) ? sign : "")),
  );
}

/** Neutralizes one line in which every byte matters, such as a name. */
export function neutralizeLine(text: string): string {
  return text.replace(ODD, show);
}

/** Removes all characters that `neutralizeLine` would replace, except line feeds and tabs. */
export function stripInvisible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(ODD, (sign) => (sign === "\n" || sign === "\t" ? sign : ""));
}

/** Returns one line for a title: line breaks become spaces. */
export function oneLine(text: string): string {
  return neutralizeLine(text.replace(/\s+/g, " ").trim());
}

/** A piece of text: either original characters, or the description of an invisible one. */
export interface TextPiece {
  text: string;
  /** True if the text is the description of a character. */
  odd: boolean;
}

/** Like `neutralize`, but in pieces, so that replacements can be told from original text. */
export function pieces(text: string, keepLines = true): TextPiece[] {
  const found: TextPiece[] = [];
  let from = 0;
  const wanted = keepLines ? SHOWN : ODD;
  const whole = keepLines ? text.replace(/\r\n/g, "\n") : text;
  for (const match of whole.matchAll(wanted)) {
    if (keepLines && joinsEmoji(whole, match.index)) continue;
    if (match.index > from) found.push({ text: whole.slice(from, match.index), odd: false });
    found.push({ text: show(match[0]), odd: true });
    from = match.index + match[0].length;
  }
  if (from < whole.length) found.push({ text: whole.slice(from), odd: false });
  return found;
}

const ESCAPE = "\u001b";
/** CSI, OSC and the other strings, and two-byte escapes. */
const SEQUENCES = new RegExp(
  `${ESCAPE}(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^${ESCAPE}\\u0007]*(?:\\u0007|${ESCAPE}\\\\)|[ -/]*[0-~])`,
  "g",
);

/**
 * Returns a program's output as plain text, as a terminal would show it: colors and cursor movements are removed, and of
 * a line that is written again, as by a progress bar, the last text is shown. `neutralize` shows the rest.
 */
export function plainOutput(text: string): string {
  return neutralize(text.replace(SEQUENCES, "").split("\n").map(lastWritten).join("\n"));
}

/** Returns what is left of a line that begins again after each carriage return. */
function lastWritten(line: string): string {
  let end = line.length;
  while (line[end - 1] === "\r") end -= 1;
  return line.slice(line.lastIndexOf("\r", end - 1) + 1, end);
}

/** Returns the letters of other scripts that resemble Latin ones, in words that also contain Latin letters. */
export function confusableCharacters(command: string): string[] {
  const found = new Set<string>();
  for (const word of command.split(/[^\p{L}\p{N}]+/u)) {
    if (!/[A-Za-z]/.test(word)) continue;
    for (const sign of word.match(/[\u0370-\u058f\u13a0-\u13ff\uff21-\uff5a]/gu) ?? []) {
      found.add(`${sign} (U+${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")})`);
    }
  }
  return [...found].sort().slice(0, 8);
}

/** Schemes of addresses that may be followed from text that came from elsewhere. */
const SCHEMES = ["http:", "https:", "mailto:"];

/**
 * Returns an address that may be followed; undefined for `javascript:` and similar schemes, and for text that is not an
 * address.
 */
export function safeHref(href: string): string | undefined {
  try {
    const url = new URL(href); // fails for relative addresses, which would lead into this page
    return SCHEMES.includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the target of a link if its text does not show it: the host, or the whole address if the text looks like an
 * address. If the address has a user name, only the host is returned, because the user name may look like another host.
 */
export function disclosedTarget(text: string, href: string): string | undefined {
  const url = new URL(href);
  if (url.username !== "" || url.password !== "") return url.host;
  const said = text.trim();
  const bare = (address: string) => address.replace(/^(https?:\/\/|mailto:)/i, "").replace(/\/$/, "");
  // Text with http is acceptable for an https target; the reverse is misleading.
  const honest = !(/^https:/i.test(said) && url.protocol === "http:");
  if (honest && said !== "" && [bare(href), bare(href).replace(/^www\./, "")].includes(bare(said))) {
    return undefined;
  }
  const looksLikeAddress = /\S[.\u3002\uff0e\u2024@]\S|:\/\//.test(said);
  return looksLikeAddress || url.host === "" ? href : url.host;
}
