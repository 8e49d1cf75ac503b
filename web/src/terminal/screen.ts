/** The screen: xterm.js, restricted to what programs may do to the page. */
import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { Unicode11Addon } from "@xterm/addon-unicode11";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { WebglAddon } from "@xterm/addon-webgl";
import { type ITheme, Terminal } from "@xterm/xterm";
import { isWeb } from "./links";
import { isSoftwareRenderer, rendererOf } from "./webgl-renderer";

/** Scrollback rows, as on the server. */
export const SCROLLBACK_ROWS = 10_000;
const FONT = 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace';

const DARK: ITheme = {
  background: "#0d1117",
  foreground: "#d7dde5",
  cursor: "#d7dde5",
  cursorAccent: "#0d1117",
  selectionBackground: "#2f4a6d",
  black: "#30363d",
  red: "#ff7b72",
  green: "#56d364",
  yellow: "#e3b341",
  blue: "#79c0ff",
  magenta: "#d2a8ff",
  cyan: "#56d4dd",
  white: "#c9d1d9",
  brightBlack: "#8b949e",
  brightRed: "#ffa198",
  brightGreen: "#7ee787",
  brightYellow: "#f2cc60",
  brightBlue: "#a5d6ff",
  brightMagenta: "#e2c5ff",
  brightCyan: "#b3f0ff",
  brightWhite: "#ffffff",
};

const LIGHT: ITheme = {
  background: "#ffffff",
  foreground: "#1f2328",
  cursor: "#1f2328",
  cursorAccent: "#ffffff",
  selectionBackground: "#b6d7ff",
  black: "#24292f",
  red: "#b31d28",
  green: "#116329",
  yellow: "#7a4e00",
  blue: "#0550ae",
  magenta: "#6f42c1",
  cyan: "#0b6a72",
  white: "#57606a",
  brightBlack: "#57606a",
  brightRed: "#a40e26",
  brightGreen: "#1a7f37",
  brightYellow: "#633c01",
  brightBlue: "#0969da",
  brightMagenta: "#8250df",
  brightCyan: "#1b7c83",
  brightWhite: "#6e7781",
};

/** Colors of search matches. */
const FOUND = {
  matchBackground: "#7a5c00",
  matchOverviewRuler: "#e3b341",
  activeMatchBackground: "#b35900",
  activeMatchColorOverviewRuler: "#ff9f43",
};

export type Theme = "dark" | "light";

/** A screen with its add-ons. */
export interface TerminalScreen {
  term: Terminal;
  /** Size in cells; undefined while the element has no size. */
  room(): { cols: number; rows: number } | undefined;
  find(text: string, direction: "next" | "previous" | "typed"): boolean;
  endSearch(): void;
  onResults(listener: (at: number, of: number) => void): () => void;
  paint(theme: Theme): void;
  dispose(): void;
}

/** Creates a screen in an element. */
export function makeScreen(element: HTMLElement, theme: Theme, hint: (text: string) => void): TerminalScreen {
  const term = new Terminal({
    allowProposedApi: true,
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    fontFamily: FONT,
    fontSize: 13,
    scrollback: SCROLLBACK_ROWS,
    theme: theme === "dark" ? DARK : LIGHT,
    minimumContrastRatio: 4.5,
    rightClickSelectsWord: true,
    macOptionIsMeta: true,
  });
  const fit = new FitAddon();
  const search = new SearchAddon({ highlightLimit: 1000 });
  term.loadAddon(fit);
  term.loadAddon(search);
  term.loadAddon(new Unicode11Addon());
  term.unicode.activeVersion = "11";
  term.loadAddon(links(hint));
  ignoreRepliesAndTitles(term);
  term.open(element);
  term.textarea?.setAttribute("aria-label", "Live terminal. Press Ctrl+Shift+Enter to leave.");
  enableWebgl(term);
  return {
    term,
    room: () => {
      const room = fit.proposeDimensions();
      return room && Number.isFinite(room.cols) && Number.isFinite(room.rows) ? room : undefined;
    },
    find: (text, direction) => {
      const options = { decorations: FOUND, incremental: direction === "typed" };
      return direction === "previous" ? search.findPrevious(text, options) : search.findNext(text, options);
    },
    endSearch: () => search.clearDecorations(),
    onResults: (listener) => {
      const on = search.onDidChangeResults(({ resultIndex: at, resultCount: of }) => listener(at, of));
      return () => on.dispose();
    },
    paint: (next) => {
      term.options.theme = next === "dark" ? DARK : LIGHT;
    },
    dispose: () => term.dispose(),
  };
}

/** Links in the output. Output is untrusted: opening a link takes Ctrl+click, and its target is shown. */
function links(hint: (text: string) => void): WebLinksAddon {
  const open = (event: MouseEvent, address: string) => {
    if (!(event.ctrlKey || event.metaKey) || !isWeb(address)) return;
    window.open(address, "_blank", "noopener,noreferrer");
  };
  return new WebLinksAddon(open, {
    hover: (_, address) => hint(isWeb(address) ? `Ctrl+click to open ${address}` : ""),
    leave: () => hint(""),
  });
}

/**
 * Uses WebGL while it is available, otherwise the DOM renderer. Software-emulated WebGL is avoided, because it would
 * use up the CPU, and may draw nothing where a pixel of the page is several of the screen.
 */
function enableWebgl(term: Terminal): void {
  const canvas = document.createElement("canvas");
  const card = canvas.getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (!card) return;
  const isEmulated = isSoftwareRenderer(rendererOf(card));
  card.getExtension("WEBGL_lose_context")?.loseContext(); // a page has few of them
  if (isEmulated) return;
  try {
    const webgl = new WebglAddon();
    webgl.onContextLoss(() => webgl.dispose());
    term.loadAddon(webgl);
  } catch {
    // The screen draws without WebGL.
  }
}

/**
 * Second line of defense behind the server's filter: output cannot set the title, use the clipboard, create links with
 * hidden targets, or trigger replies.
 */
function ignoreRepliesAndTitles(term: Terminal): void {
  const nothing = () => true;
  for (const osc of [0, 1, 2, 4, 7, 8, 9, 10, 11, 12, 50, 52, 99, 104, 110, 111, 112, 133, 633, 777, 1337]) {
    term.parser.registerOscHandler(osc, nothing);
  }
  for (const id of [
    { final: "c" },
    { prefix: ">", final: "c" },
    { prefix: "=", final: "c" },
    { prefix: ">", final: "q" },
    { final: "n" },
    { prefix: "?", final: "n" },
    { intermediates: "$", final: "p" },
    { prefix: "?", intermediates: "$", final: "p" },
    { final: "t" },
    { final: "x" },
    { prefix: "?", final: "u" },
  ]) {
    term.parser.registerCsiHandler(id, nothing);
  }
  for (const id of [{ intermediates: "$", final: "q" }, { intermediates: "+", final: "q" }, { final: "q" }]) {
    term.parser.registerDcsHandler(id, nothing);
  }
  term.parser.registerEscHandler({ final: "Z" }, nothing);
}

/** Returns the screen and the scrollback as text; wrapped rows are joined. */
export function textOf(term: Terminal): string {
  const buffer = term.buffer.active;
  const lines: string[] = [];
  for (let row = 0; row < buffer.length; row += 1) {
    const line = buffer.getLine(row);
    if (!line) continue;
    const text = line.translateToString(true);
    const last = lines.length - 1;
    if (line.isWrapped && last >= 0) lines[last] += text;
    else lines.push(text);
  }
  return lines.join("\n").trimEnd();
}

/** Returns the text of the line left of the cursor. */
export function lineToCursor(term: Terminal): string {
  const { baseY, cursorX, cursorY } = term.buffer.active;
  let row = baseY + cursorY;
  let text = term.buffer.active.getLine(row)?.translateToString(false, 0, cursorX) ?? "";
  for (; term.buffer.active.getLine(row)?.isWrapped; row -= 1) {
    text = (term.buffer.active.getLine(row - 1)?.translateToString(true) ?? "") + text;
  }
  return text;
}

/** Returns true if nothing is in the cell of the cursor. A prompt at the right of the line does not count. */
export function isBlankAtCursor(term: Terminal): boolean {
  const { baseY, cursorX, cursorY } = term.buffer.active;
  const cell = term.buffer.active.getLine(baseY + cursorY)?.getCell(cursorX);
  return (cell?.getChars() ?? "").trim() === "";
}
