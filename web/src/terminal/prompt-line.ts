/**
 * Tells if the line of the cursor has a prompt and no text, and when a later line has begun. The screen does not show
 * what is prompt and what is text, so the answer is no where that is in doubt.
 */
import type { IMarker, Terminal } from "@xterm/xterm";
import { isBlankAtCursor, lineToCursor } from "./screen";

/** Last characters of common prompts. */
const SIGNS = "$#%>❯➜λ»";
const PROMPT = new RegExp(`^[^${SIGNS}]*[${SIGNS}]+\\s*$`);
/** Prompts for the rest of a command: that of POSIX shells, those of zsh, which name what is open, and of mysql. */
const CONTINUATION =
  /^(?:(?:for|while|repeat|select|until|if|then|else|elif|elif-then|math|cond|cmdor|cmdand|pipe|errpipe|foreach|case|function|subsh|cursh|array|quote|dquote|bquote|cmdsubst|mathsubst|heredocd?|brace|braceparam|always) ?)*>\s*$|^\s*[-'"`]>\s*$/;
/** Bracketed paste, which line editors turn on for each prompt. */
const BRACKETED_PASTE = 2004;

/** Returns true if a line up to the cursor looks like a prompt without text of a command. */
export function isBarePrompt(line: string): boolean {
  return line === "" || (PROMPT.test(line) && !CONTINUATION.test(line));
}

export class PromptLine {
  /** The last line before the next prompt, from the end of a line editor on. */
  private before: IMarker | undefined;
  /** True from the beginning of a prompt until it is drawn. */
  private begins = false;
  /** The last prompt that was drawn while this page was connected. */
  private drawn: string | undefined;
  private waiting: { line: IMarker | undefined; then(): void } | undefined;

  constructor(private readonly term: Terminal) {
    term.parser.registerCsiHandler({ prefix: "?", final: "h" }, (modes) => {
      this.begins ||= modes.includes(BRACKETED_PASTE);
      return false;
    });
    term.parser.registerCsiHandler({ prefix: "?", final: "l" }, (modes) => {
      if (modes.includes(BRACKETED_PASTE)) this.onEditorEnd();
      return false;
    });
    term.onWriteParsed(() => this.onParsed());
  }

  /** Called when a screen has been drawn that was not observed from its beginning. */
  restart(): void {
    this.cancel();
    this.forget();
    this.drawn = undefined;
  }

  isEmpty(): boolean {
    const line = lineToCursor(this.term);
    const { drawn } = this;
    // After a prompt that is known, a sign such as that of a redirection is text.
    const isLonger = drawn !== undefined && line !== drawn && line.startsWith(drawn);
    return isBlankAtCursor(this.term) && !isLonger && (isBarePrompt(line) || line === drawn);
  }

  /** True if a line editor reads: in this mode, unless a program has the whole screen. */
  hasEditor(): boolean {
    const { modes, buffer } = this.term;
    return modes.bracketedPasteMode && buffer.active.type === "normal";
  }

  /**
   * Calls `then` once a line editor has drawn a prompt in a later line than that of the cursor; never if that line has
   * left the scrollback by then.
   */
  onNextPrompt(then: () => void): void {
    this.cancel();
    this.waiting = { line: this.term.registerMarker(0), then };
  }

  /** Returns true if a call was waiting. */
  cancel(): boolean {
    const { waiting } = this;
    waiting?.line?.dispose();
    this.waiting = undefined;
    return waiting !== undefined;
  }

  /** An editor may end and begin within its line, as bash does for a signal. */
  private onEditorEnd(): void {
    const { active } = this.term.buffer;
    const { baseY, cursorY } = active;
    const isBlank =
      active
        .getLine(baseY + cursorY)
        ?.translateToString(true)
        .trim() === "";
    this.forget();
    this.before = this.term.registerMarker(isBlank ? -1 : 0);
  }

  private forget(): void {
    this.begins = false;
    this.before?.dispose();
    this.before = undefined;
  }

  private onParsed(): void {
    const line = lineToCursor(this.term);
    if (line.trim() === "" || !this.hasEditor()) return;
    if (this.begins) {
      const isNew = this.before !== undefined && this.isBelow(this.before);
      if (isNew && !CONTINUATION.test(line)) this.drawn = line;
      this.forget();
    }
    const { waiting } = this;
    if (!waiting?.line || waiting.line.line < 0 || !this.isBelow(waiting.line)) return;
    this.cancel();
    waiting.then();
  }

  /** Returns true if the cursor is below a line, which is -1 if the line has left the scrollback. */
  private isBelow({ line }: IMarker): boolean {
    const { baseY, cursorY } = this.term.buffer.active;
    return baseY + cursorY > line;
  }
}
