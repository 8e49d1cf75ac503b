/** Connects a screen to a session: draws output, sends input, and keeps the size in sync with the page. */
import type { Link, LinkState } from "../protocol/session-link";
import { pageKeyInTerminal, TERMINAL_SIZE } from "../terminal-api";
import type { ServerMessage } from "../wire";
import { FlowControl } from "./flow-control";
import { keysFor, prepareInput, type TerminalText } from "./paste";
import { PromptLine } from "./prompt-line";
import { makeScreen, SCROLLBACK_ROWS, type TerminalScreen, type Theme, textOf } from "./screen";
import { ShellWatch } from "./shell-watch";

/** Delay, in milliseconds, before a size change is sent to the terminal. */
const SETTLED_MS = 120;
/** Written before a snapshot: ends an unfinished sequence and resets the modes. */
const AFRESH = "\u0018\u001b[!p";
/** Keys and commands that wait for the shell. */
const EARLY_MAX = 1000;
/** Ctrl+C, which drops the line of a line editor. Ctrl+U does so in some editing modes only. */
const DROP_LINE = "\u0003";
/** Why a command has to be confirmed that would be added to a line. */
const LINE_HAS_TEXT = "The line may not be empty. The command would be appended to it.";
/** The same where the line can be dropped. */
const LINE_IS_DROPPED = "Replace the text on the line?";
/** The same where a program has the whole screen, such as an editor. */
const PROGRAM_RUNS = "A program is running in the terminal; it would get these keys.";
/** Time, in milliseconds, in which a line editor must have drawn its next prompt. */
const NEXT_PROMPT_MS = 4_000;
/** Shown if it has not. */
const NOT_TYPED = "Not typed: no empty line appeared.";
/** Shown until the shell has dropped its line. */
const WAITS_FOR_PROMPT = "Waiting for an empty line. A key cancels.";
/** Input up to the last Enter, Ctrl+J or Ctrl+C, after which the line is empty. */
const TO_LINE_END = /^.*[\r\n\u0003]/s;
/** Reports that the terminal gets or loses the focus, which are no text. */
const FOCUS_REPORT = /^\u001b\[[IO]$/;

/** Text that waits for confirmation. */
export interface InputConfirmation extends TerminalText {
  /** Label of the confirm button. */
  verb: string;
  /** The answer that has the focus. */
  focus: "yes" | "no";
  yes(): void;
  no(): void;
}

/** State shown around the screen. */
export interface TerminalStatus {
  connected: boolean;
  /** Reason why the shell ended. */
  ended?: string;
  /** Reason why there is no terminal. */
  problem?: string;
  /** True if nobody has opened the terminal, which a user who only watches cannot do. */
  unopened?: boolean;
  /** True if the shell on the screen replaced one that ended with the server. */
  restarted?: boolean;
  /** True if text is selected. */
  selection?: boolean;
  hint?: string;
  /** True if the next letter is typed with Ctrl. */
  ctrl?: boolean;
  asking?: InputConfirmation;
}

/** Joins two sentences, of which each may be missing. */
function joined(first: string | undefined, second: string | undefined): string | undefined {
  return first && second ? `${first} ${second}` : (first ?? second);
}

type Output = Extract<ServerMessage, { type: "terminal.output" }>;

export class TerminalSession {
  /** Called when the user leaves the terminal, which receives even Tab. */
  onLeave: () => void = () => {};
  /** Called when the user starts a search. */
  onSearch: () => void = () => {};
  private readonly screen: TerminalScreen;
  private readonly line: PromptLine;
  private readonly flow: FlowControl;
  private readonly ends: (() => void)[] = [];
  /** Ends the wait of a text for an empty line. */
  private deadline: ReturnType<typeof setTimeout> | undefined;
  /** True while the hint is about that text. */
  private tellsReplacement = false;
  private connected = false;
  private settling: ReturnType<typeof setTimeout> | undefined;
  private ended = false;
  private readonly shells = new ShellWatch();
  private tellsRestart = false;
  private ctrl = false;
  /** Number of the current connection, so that late callbacks of earlier ones are ignored. */
  private connection = 0;
  /** True once this connection's shell is on the screen, which knows its modes. The server takes no input before. */
  private shown = false;
  /** Input for the shell, until its screen arrives. */
  private early: (() => void)[] = [];
  /** True if something was typed since the line last ended. */
  private lineHasText = false;

  constructor(
    private readonly link: Link,
    private readonly element: HTMLElement,
    theme: Theme,
    private readonly show: (change: Partial<TerminalStatus>) => void,
    /** True if the user may only watch: nothing is typed, and the size is left to others. */
    private watching = false,
  ) {
    this.screen = makeScreen(element, theme, (hint) => show({ hint }));
    const { term } = this.screen;
    this.line = new PromptLine(term);
    this.flow = new FlowControl({
      write: (data, done) => term.write(data, done),
      stop: () => this.link.send({ type: "terminal.detach" }),
      // A client that only fell behind keeps its scrollback, and does not change the size for the others.
      ask: (first) =>
        this.link.send({
          type: "terminal.attach",
          ...(first && !this.watching && this.screen.room()),
          ...(first && { messageId: TERMINAL_SIZE, scrollback: SCROLLBACK_ROWS }),
        }),
    });
    term.onData((data) => this.typeKey(data));
    // The old mouse encoding sends bytes, and bytes beyond ASCII would change in UTF-8.
    term.onBinary((data) => {
      if (/^[\0-\x7f]*$/.test(data)) this.type(data);
    });
    term.onSelectionChange(() => show({ selection: term.hasSelection() }));
    term.attachCustomKeyEventHandler((event) => this.key(event));
    this.listen(element, "paste", (event) => this.onPaste(event as ClipboardEvent), true);
    this.listen(element, "focusin", () => this.scheduleResize(), false);
    const sizes = new ResizeObserver(() => this.scheduleResize());
    sizes.observe(element);
    this.ends.push(() => sizes.disconnect());
    this.ends.push(link.on((message) => this.onMessage(message)));
    this.ends.push(link.onState((state) => this.onLinkState(state)));
  }

  dispose(): void {
    clearTimeout(this.settling);
    clearTimeout(this.deadline);
    for (const end of this.ends) end();
    if (this.connected) this.link.send({ type: "terminal.detach" });
    this.screen.dispose();
  }

  /**
   * Types a command and Enter; asks for confirmation unless it is one line of plain text. A `question` is asked in any
   * case.
   */
  run(command: string, question?: string): void {
    const what = prepareInput(command.replace(/\s+$/, ""));
    const why = joined(question, what.why);
    this.typeCommand({ ...what, why }, "Run", "\r", question === undefined ? "yes" : "no");
  }

  /** Types a command without Enter; asks for confirmation if the line may have text, which it then replaces. */
  insert(command: string): void {
    this.typeCommand(prepareInput(command), "Paste", "", "yes");
  }

  paste(text: string): void {
    const what = prepareInput(text);
    this.confirmFirst(what, "Paste", "yes", () => this.typePasted(what.text, ""));
  }

  text(): string {
    return textOf(this.screen.term);
  }

  selected(): string {
    return this.screen.term.getSelection();
  }

  focus(): void {
    this.screen.term.focus();
  }

  paint(theme: Theme): void {
    this.screen.paint(theme);
  }

  release(): void {
    this.link.send({ type: "terminal.release" });
  }

  /** Opens a new shell after one has ended. */
  again(): void {
    this.show({ ended: undefined, problem: undefined, unopened: false });
    this.connect();
    this.focus();
  }

  /** Requests the screen, and opens a shell if there is none. */
  private connect(): void {
    this.connection += 1;
    this.shown = false;
    this.ended = false;
    this.early = [];
    this.cancelReplacement();
    this.flow.connected();
  }

  find(text: string, direction: "next" | "previous" | "typed"): boolean {
    return this.screen.find(text, direction);
  }

  endSearch(): void {
    this.screen.endSearch();
  }

  /** Reports search results: index and count. Returns a function that unsubscribes. */
  onResults(listener: (at: number, of: number) => void): () => void {
    return this.screen.onResults(listener);
  }

  private listen(on: HTMLElement, what: string, then: (event: Event) => void, capture: boolean): void {
    on.addEventListener(what, then, { capture });
    this.ends.push(() => on.removeEventListener(what, then, { capture }));
  }

  private onLinkState(state: LinkState): void {
    const open = state === "open";
    if (open === this.connected) return;
    this.connected = open;
    this.show({ connected: open, problem: undefined, unopened: false });
    if (open) this.connect();
    else this.flow.lost();
  }

  private onMessage(message: ServerMessage): void {
    if (message.type === "terminal.output") this.onOutput(message);
    else if (message.type === "error") this.onError(message);
  }

  private onError({ code, replyTo, message }: Extract<ServerMessage, { type: "error" }>): void {
    if (code === "no_terminal") {
      this.early = [];
      this.show({ problem: message });
    }
    const isRefused = replyTo === TERMINAL_SIZE && code?.startsWith("forbidden");
    // An open terminal refuses only another size.
    if (isRefused && this.flow.waitsForSnapshot) this.show({ unopened: true });
  }

  private onOutput({ data = "", reset = false, cols, rows, ended, instance }: Output): void {
    if (!this.flow.takes(reset)) return;
    const { term } = this.screen;
    if (instance !== undefined && this.shells.attached(instance)) {
      this.tellsRestart = true;
      this.lineHasText = false;
      this.show({ restarted: true });
    }
    if (reset) this.show({ ended: undefined, problem: undefined, unopened: false });
    if (reset) this.ended = false;
    // The prompt that it waits for may be one that is drawn again.
    if (reset) this.failReplacement();
    const isFirst = reset && !this.shown;
    if (cols && rows && (cols !== term.cols || rows !== term.rows)) {
      // Resize in order: earlier output was drawn for the old size.
      term.write("", () => {
        term.resize(cols, rows);
        term.refresh(0, rows - 1);
      });
    }
    if (data || reset) this.flow.push(reset ? AFRESH + data : data);
    if (reset) {
      term.write("", () => {
        this.failReplacement();
        this.line.restart();
      });
    }
    if (isFirst) {
      const { connection } = this;
      term.write("", () => {
        if (connection !== this.connection) return;
        this.shown = true;
        for (const act of this.early.splice(0)) act();
      });
    }
    if (ended !== undefined) {
      this.ended = true;
      this.early = [];
      this.lineHasText = false;
      this.cancelReplacement();
      this.shells.ended();
      this.show({ ended });
    }
  }

  /** Types a key, with Ctrl if it is held. */
  typeKey(data: string): void {
    const letter = this.ctrl && /^[a-z@[\\\]^_ ]$/i.test(data);
    this.type(letter ? String.fromCharCode(data.toUpperCase().charCodeAt(0) & 31) : data);
    if (this.ctrl) this.holdCtrl(false);
  }

  /** Types an arrow key, by the last letter of its sequence. */
  arrow(letter: string): void {
    const { applicationCursorKeysMode } = this.screen.term.modes;
    this.typeKey(`\u001b${applicationCursorKeysMode ? "O" : "["}${letter}`);
  }

  /** Sets whether the next letter is typed with Ctrl. */
  holdCtrl(held: boolean): void {
    this.ctrl = held;
    this.show({ ctrl: held });
    this.focus();
  }

  setWatching(watching: boolean): void {
    this.watching = watching;
  }

  setFontSize(pixels: number): void {
    const { options } = this.screen.term;
    if (options.fontSize === pixels) return;
    options.fontSize = pixels;
    this.scheduleResize();
  }

  private type(data: string): void {
    if (!this.connected || this.watching) return;
    if (this.ended) {
      if (data === "\r") this.again();
      return;
    }
    if (!this.shown) {
      this.whenShown(() => this.type(data));
      return;
    }
    if (!FOCUS_REPORT.test(data)) {
      this.cancelReplacement();
      const rest = data.replace(TO_LINE_END, "");
      this.lineHasText = rest !== "" || (this.lineHasText && rest === data);
    }
    if (this.tellsRestart) this.show({ restarted: false });
    this.tellsRestart = false;
    this.link.send({ type: "terminal.input", data });
  }

  private typePasted(text: string, after: string): void {
    this.type(keysFor(text, this.screen.term.modes.bracketedPasteMode) + after);
    this.focus();
  }

  /** Acts once this connection's shell is on the screen. */
  private whenShown(act: () => void): void {
    if (this.shown) act();
    else if (this.early.length < EARLY_MAX) this.early.push(act);
  }

  /** Types a command once the shell is there, in an empty line, or after a confirmation if the line may hold text. */
  private typeCommand(what: TerminalText, verb: string, after: string, focus: "yes" | "no"): void {
    const typeInLine = (reason?: string) => {
      const doubt = this.lineDoubt();
      const why = joined(reason, doubt);
      const act = () => {
        // The line may have changed while the question was open.
        if (this.lineDoubt() !== doubt) typeInLine(reason);
        else if (doubt === LINE_IS_DROPPED) this.replaceLine(what.text, after);
        else this.typePasted(what.text, after);
      };
      const label = doubt === LINE_IS_DROPPED ? "Replace" : verb;
      const safer = doubt === PROGRAM_RUNS ? "no" : focus;
      this.confirmFirst({ ...what, why }, label, safer, () => this.whenShown(act));
    };
    if (this.shown && !this.ended) {
      typeInLine(what.why);
      return;
    }
    this.confirmFirst(what, verb, focus, () => {
      if (this.ended) this.again();
      this.whenShown(typeInLine);
    });
  }

  /** Returns why a command must not simply be typed; undefined if the line is empty. */
  private lineDoubt(): string | undefined {
    if (this.screen.term.buffer.active.type === "alternate") return PROGRAM_RUNS;
    if (!this.lineHasText && this.line.isEmpty()) return undefined;
    return this.line.hasEditor() ? LINE_IS_DROPPED : LINE_HAS_TEXT;
  }

  /**
   * Drops the line of the line editor, and types a text once there is a new prompt: before that, the editor may still
   * take it as a part of the old line. A program that goes on after Ctrl+C may end much later, when nobody expects it.
   */
  private replaceLine(text: string, after: string): void {
    this.type(DROP_LINE);
    this.tellsReplacement = true;
    this.show({ hint: WAITS_FOR_PROMPT });
    this.deadline = setTimeout(() => this.failReplacement(), NEXT_PROMPT_MS);
    this.line.onNextPrompt(() => {
      this.cancelReplacement();
      this.typePasted(text, after);
    });
    this.focus();
  }

  private cancelReplacement(): void {
    clearTimeout(this.deadline);
    this.line.cancel();
    if (this.tellsReplacement) this.show({ hint: "" });
    this.tellsReplacement = false;
  }

  /** Cancels it, and says so until the next key. */
  private failReplacement(): void {
    clearTimeout(this.deadline);
    if (this.line.cancel()) this.show({ hint: NOT_TYPED });
  }

  /** Asks for confirmation first, if the text needs it. */
  private confirmFirst(what: TerminalText, verb: string, focus: "yes" | "no", then: () => void): void {
    if (what.text === "") return;
    if (what.why === undefined) {
      then();
      return;
    }
    const done = (act: () => void) => () => {
      this.show({ asking: undefined });
      act();
    };
    this.show({ asking: { ...what, verb, focus, yes: done(then), no: done(() => this.focus()) } });
  }

  private onPaste(event: ClipboardEvent): void {
    event.preventDefault();
    event.stopPropagation();
    this.paste(event.clipboardData?.getData("text/plain") ?? "");
  }

  /** Handles the page's own keys; all others go to the terminal. */
  private key(event: KeyboardEvent): boolean {
    if (pageKeyInTerminal(event)) return false;
    if (event.type !== "keydown" || !event.ctrlKey || !event.shiftKey || event.altKey) return true;
    switch (event.code) {
      case "KeyF":
        event.preventDefault();
        this.onSearch();
        return false;
      case "Enter":
        event.preventDefault();
        this.onLeave();
        return false;
      case "KeyC":
        event.preventDefault();
        this.copy();
        return false;
      case "KeyV":
        return false; // the browser pastes
      default:
        return true;
    }
  }

  private copy(): void {
    const text = this.selected();
    if (text === "") return;
    const old = () => document.execCommand("copy"); // where the address is neither secure nor of this machine
    if (navigator.clipboard) navigator.clipboard.writeText(text).catch(old);
    else old();
  }

  /** Sends the terminal's size once it is stable; the last client to do so wins. */
  private scheduleResize(): void {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      const room = this.screen.room();
      const { term } = this.screen;
      if (!room || !this.connected || this.watching || !this.element.isConnected) return;
      if (room.cols !== term.cols || room.rows !== term.rows) {
        this.link.send({ type: "terminal.resize", ...room, messageId: TERMINAL_SIZE });
      }
    }, SETTLED_MS);
  }
}
