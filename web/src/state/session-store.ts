/**
 * Store of an open session: connection, transcript and state of this tab. Messages are processed once per frame.
 * Components subscribe to it.
 */
import { lazyPart } from "../app/lazy-part";
import { listSkills } from "../protocol/api";
import type { Pending } from "../protocol/outbox";
import { hintFor, RequestError } from "../protocol/request-error";
import { type LinkStatus, newId, SessionLink } from "../protocol/session-link";
import { TERMINAL_SIZE } from "../terminal-api";
import { shortHostLabel } from "../text/labels";
import { neutralizeLine } from "../text/neutralize";
import type {
  ApprovalMode,
  ClientMessage,
  DecisionKind,
  ErrorCode,
  Mode,
  PromptImage,
  RevokedGrant,
  ServerMessage,
  SessionId,
  Skill,
} from "../wire";
import { addedTo, type DraftPlace } from "./draft";
import { isOwn, type Step } from "./item";
import { notify } from "./notify";
import { askPage } from "./page-requests";
import { foldQueued, markAsked, type QueuedPrompts } from "./queued-prompts";
import * as storage from "./storage";
import { emptyTranscript, fold, isCaughtUp, pendingApproval, type Transcript } from "./transcript";
import { callRefusal, isSkill } from "./typed-calls";

type CommandCode = Pick<typeof import("./commands"), "parseCommand" | "unknownCommand">;

/** Loaded with the messages. A chunk of its own would split the page's script. */
export const commandCode = lazyPart<CommandCode>(() => import("../conversation/parts"));

/** An error that is shown until the user dismisses it. */
export interface ErrorNotice {
  id: number;
  what: string;
  why: string;
  hint: string;
}

/** A search in the messages of a session that the user asks for. */
export interface FindRequest {
  /** The text to find; empty if the user is yet to type it. */
  words: string;
  /** True if the words come from the list of sessions: each may be somewhere else in an item. */
  ofList: boolean;
}

/** The search that is open in a tab. */
export interface OpenFind extends FindRequest {
  /** True until the field has taken the focus for the last request. */
  isNew: boolean;
}

/** Immutable view of a session for components; replaced on every change. */
export interface SessionView {
  transcript: Transcript;
  status: LinkStatus;
  caughtUp: boolean;
  /** Prompts in flight. */
  pending: readonly Pending[];
  /** Prompts and commands that wait for the answer to an earlier one, oldest first. */
  typed: readonly string[];
  /** Texts of the prompts in the session's queue that this tab sent. */
  ownQueued: readonly string[];
  troubles: readonly ErrorNotice[];
  /** True if this tab requested a stop and the turn has not ended yet. */
  stopping: boolean;
  /** Calls answered in this tab, with the decision. */
  answered: ReadonlyMap<string, DecisionKind>;
  /** Items before this index, counted from the start of the log, are hidden in this tab. */
  clearedTo: number;
  /** True if cleared items are shown. */
  showsAll: boolean;
  /** Mode of the next turn. */
  mode: Mode;
  /** Number of prompts and commands that this tab has sent; the conversation scrolls to the end for each. */
  sends: number;
  /** Time at which each call began while this page was connected, in milliseconds since 1970. */
  begun: ReadonlyMap<string, number>;
  /** Time at which the model call in flight began, if this page was connected then, in milliseconds since 1970. */
  asked: number | undefined;
  /** Time at which each reading of a background job ended while this page was connected, by call. */
  jobsRead: ReadonlyMap<string, number>;
  /** The search that is open in this tab. */
  find: OpenFind | undefined;
}

/** Origin of a sent message. */
interface SentCommand {
  /** Title of the error if it fails. */
  what: string;
  /** Call that it answers. */
  call?: string;
  /** Text that returns to the draft if it fails. */
  draft?: string;
  /** Text of the queued prompt that it takes back. */
  withdraws?: string;
}

type DraftListener = (text: string, images: readonly PromptImage[], place: DraftPlace) => void;

/** Time that a hidden tab, which gets no animation frames, buffers messages. */
const HIDDEN_MS = 200;
/** Time after the end of a turn in which the session may queue its prompts again. It does so at once. */
const REQUEUE_MS = 200;
const TROUBLES_MAX = 4;

/** Terminal output as part of a prompt; the code fence is longer than any fence in it. */
export function fromTerminal(text: string): string {
  const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  return `From the terminal:\n${fence}\n${text.trimEnd()}\n${fence}\n`;
}

export class SessionStore {
  readonly id: SessionId;
  readonly link: SessionLink;
  /** Name of the server's machine; undefined until the server has told it. */
  machine: string | undefined;
  private view: SessionView;
  private inbox: ServerMessage[] = [];
  private scheduled = false;
  private readonly listeners = new Set<() => void>();
  private readonly draftListeners = new Set<DraftListener>();
  /** Recently sent messages, by id. */
  private readonly sent = new Map<string, SentCommand>();
  private troubleCount = 0;
  /** Last event of the history of this connection, and the last one received. */
  private historyEnd = Number.POSITIVE_INFINITY;
  private received = 0;
  /** True until the history of this connection has been received. */
  private behind = true;
  /** `SessionView.begun` as of the last message received. */
  private begun: ReadonlyMap<string, number> = new Map();
  /** `SessionView.asked` as of the last message received. */
  private asked: number | undefined;
  /** `SessionView.jobsRead` as of the last message received. */
  private jobsRead: ReadonlyMap<string, number> = new Map();
  /** `SessionView.typed`; the first one is being handled. */
  private typed: readonly { content: string; images: PromptImage[] }[] = [];
  /** Number of times that the text in `typed` was moved back to the draft. */
  private returns = 0;
  private handlesTyped = false;
  /** Prompts of this tab in the session's queue. */
  private queued: QueuedPrompts;
  private requeueTimer: ReturnType<typeof setTimeout> | undefined;
  /** Skills of the session as last told by the server, which knows them before the log does. */
  private skills: readonly Skill[] = [];
  private skillsRequest: Promise<readonly Skill[]> | undefined;

  constructor(id: SessionId, link = new SessionLink(id, storage.pendingPrompts(id))) {
    this.id = id;
    this.link = link;
    this.queued = { waiting: storage.queuedPrompts(id), held: [] };
    this.view = {
      transcript: emptyTranscript,
      status: link.status,
      caughtUp: false,
      pending: link.pending,
      typed: [],
      ownQueued: this.queued.waiting.map(({ content }) => content),
      troubles: [],
      stopping: false,
      answered: new Map(),
      clearedTo: storage.clearedTo(id),
      showsAll: false,
      mode: "agent",
      sends: 0,
      begun: new Map(),
      asked: undefined,
      jobsRead: new Map(),
      find: undefined,
    };
    link.on((message) => this.take(message));
    link.onStatus(() => {
      storage.savePending(id, link.pending);
      // An answer may have been lost with its connection, so open requests can be answered again.
      const lost = this.view.status.state === "open" && link.status.state !== "open";
      // Nobody tells this page when a user stops to control the terminal.
      if (lost) this.take({ type: "terminal.control", sessionId: id });
      const answered = lost ? new Map<string, DecisionKind>() : this.view.answered;
      // The banner of a closed connection says all that its last errors said.
      const troubles = link.status.final ? [] : this.view.troubles;
      this.become({ status: link.status, pending: link.pending, answered, troubles });
    });
    link.onQueued((prompt) => {
      const { waiting, held } = this.queued;
      this.keepQueued({ waiting: [...waiting, prompt], held });
    });
    link.onRefused(({ content, images }) => this.appendToDraft(content, images));
  }

  open(): void {
    this.link.open();
  }

  close(): void {
    this.returnTyped();
    clearTimeout(this.requeueTimer); // what is held stays in the storage
    this.link.close();
    this.listeners.clear();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): SessionView => this.view;

  /** Subscribes to text and images for the composer: rejected prompts, or text sent from elsewhere on the page. */
  onDraft(listener: DraftListener): () => void {
    this.draftListeners.add(listener);
    return () => this.draftListeners.delete(listener);
  }

  /** Appends text and images to the draft. */
  appendToDraft(text: string, images: readonly PromptImage[] = []): void {
    this.addToDraft(text, images, "end");
  }

  private addToDraft(text: string, images: readonly PromptImage[], place: DraftPlace): void {
    for (const listener of this.draftListeners) listener(text, images, place);
    if (this.draftListeners.size > 0) return;
    storage.saveDraft(this.id, addedTo(storage.draft(this.id), text, place));
    if (images.length > 0) storage.saveDraftImages(this.id, [...storage.draftImages(this.id), ...images]);
  }

  /** Moves prompts back to the draft. They were typed before the text that is in it. */
  private returnToDraft(prompts: readonly { content: string; images?: readonly PromptImage[] }[]): void {
    if (prompts.length === 0) return;
    const images = prompts.flatMap((prompt) => prompt.images ?? []);
    this.addToDraft(prompts.map(({ content }) => content).join("\n"), images, "start");
  }

  /** Sends a prompt, or runs a page command. A `!command` runs without a model. What is typed later comes later. */
  say(text: string, images: PromptImage[] = []): void {
    this.sending();
    this.typed = [...this.typed, { content: text, images }];
    if (this.handlesTyped) this.showTyped();
    else void this.handleTyped();
  }

  private async handleTyped(): Promise<void> {
    this.handlesTyped = true;
    try {
      for (let [next] = this.typed; next; [next] = this.typed) {
        try {
          const wait = this.sayNext(next.content, next.images);
          if (!wait) continue;
          this.showTyped();
          await wait;
        } finally {
          // A stop may have returned it to the draft.
          if (this.typed[0] === next) this.typed = this.typed.slice(1);
        }
      }
    } finally {
      this.handlesTyped = false;
      this.showTyped();
    }
  }

  private showTyped(): void {
    if (this.typed.length === 0 && this.view.typed.length === 0) return;
    this.become({ typed: this.typed.map(({ content }) => content) });
  }

  /** Moves what waits for an answer of the server back to the draft. */
  private returnTyped(): void {
    this.returns++;
    const { typed } = this;
    this.typed = [];
    this.returnToDraft(typed);
    this.showTyped();
  }

  private keepQueued(queued: QueuedPrompts): void {
    const { waiting, held } = queued;
    if (waiting !== this.queued.waiting || held !== this.queued.held) {
      storage.saveQueued(this.id, [...held, ...waiting]);
      this.become({ ownQueued: waiting.map(({ content }) => content) });
    }
    this.queued = queued;
  }

  /** Moves prompts that a stop dropped from the session's queue back to the draft. */
  private returnQueued(messages: readonly ServerMessage[]): void {
    const { waiting, held, dropped } = foldQueued(this.queued, messages);
    this.keepQueued({ waiting, held });
    this.returnToDraft(dropped);
    if (held.length > 0) this.requeueTimer ??= setTimeout(this.returnHeld, REQUEUE_MS);
  }

  /** Moves the prompts that the session has not queued again back to the draft. */
  private readonly returnHeld = (): void => {
    this.requeueTimer = undefined;
    const overdue = new Set(this.queued.held);
    this.flush();
    // While messages are missing, the next ones start the timer again.
    if (this.behind || this.view.status.state !== "open") return;
    const { waiting, held } = this.queued;
    const dropped = held.filter((prompt) => overdue.has(prompt));
    if (dropped.length === 0) return;
    this.keepQueued({ waiting, held: held.filter((prompt) => !overdue.has(prompt)) });
    this.returnToDraft(dropped);
  };

  /** Returns a promise if the server must be asked first. */
  private sayNext(text: string, images: PromptImage[]): Promise<void> | undefined {
    if (images.length > 0) {
      this.link.send({ type: "user.message", content: text, images, messageId: newId() });
      return undefined;
    }
    if (text.startsWith("!") && text.slice(1).trim()) {
      const command = text.slice(1).trim();
      this.sendCall({ type: "direct", command, origin: "typed" }, "Command not run", { draft: text });
      return undefined;
    }
    if (text.startsWith("/")) return this.sayCommand(text);
    this.link.send({ type: "user.message", content: text, messageId: newId() });
    return undefined;
  }

  private sayCommand(text: string): Promise<void> | undefined {
    const { loaded } = commandCode;
    return loaded ? this.runCommand(loaded, text) : this.loadCommand(text);
  }

  private async loadCommand(text: string): Promise<void> {
    const { returns } = this;
    const loaded = await commandCode.load().catch(() => undefined);
    if (returns !== this.returns) return; // the text is in the draft
    if (loaded) {
      await this.runCommand(loaded, text);
      return;
    }
    this.tell("Command not run", "the server did not send its code", "Reload the page.");
    this.appendToDraft(text);
  }

  private runCommand(code: CommandCode, text: string): Promise<void> | undefined {
    const { transcript } = this.view;
    const command = code.parseCommand(text, transcript, [...transcript.skills, ...this.skills]);
    switch (command?.kind) {
      case "send":
        if (command.note) this.note(command.note);
        this.sendCommand(command.message, command.what, { draft: text });
        break;
      case "call":
        this.sendCall(command.message, command.what, { draft: text });
        break;
      case "act":
        this[command.act]();
        break;
      case "read":
        this.readJob(command.jobId);
        break;
      case "ask":
        askPage(command.request);
        break;
      case "find":
        this.find({ words: command.words, ofList: false });
        break;
      case "tell":
        this.note(command.text);
        break;
      case "unknown":
        return this.sayIfSkill(text, command.word, code);
      case undefined:
        this.link.send({ type: "user.message", content: text, messageId: newId() });
    }
    return undefined;
  }

  /** Asks the server for the skills of the session. Requests at the same time are one. */
  fetchSkills(): Promise<readonly Skill[]> {
    this.skillsRequest ??= listSkills(this.id).then((skills) => {
      this.skills = skills;
      return skills;
    });
    const request = this.skillsRequest;
    const ended = () => {
      if (this.skillsRequest === request) this.skillsRequest = undefined;
    };
    request.then(ended, ended);
    return request;
  }

  /** Sends a prompt if its first word is a new skill of the session; otherwise the text returns to the composer. */
  private async sayIfSkill(text: string, word: string, code: CommandCode): Promise<void> {
    const { returns } = this;
    try {
      const skills = await this.fetchSkills();
      if (returns !== this.returns) return; // the text is in the draft
      if (isSkill(word, skills)) {
        this.link.send({ type: "user.message", content: text, messageId: newId() });
        return;
      }
      this.note(code.unknownCommand(word, skills));
    } catch (error) {
      if (returns !== this.returns) return;
      this.trouble(error);
    }
    this.appendToDraft(text);
  }

  /** Hides earlier items again, and shows the end of the conversation. */
  private sending(): void {
    this.become({ showsAll: false, sends: this.view.sends + 1 });
  }

  /** Shows a line in this tab only, until the page is reloaded. */
  private note(content: string): void {
    this.take({ type: "notice", sessionId: this.id, content });
  }

  /** Answers a proposal. The reason returns to the draft if the server refuses the answer. */
  decide(call: string, decision: DecisionKind, change: { command?: string; reason?: string } = {}): void {
    this.sendDecision(call, decision, change, change.reason);
  }

  private sendDecision(
    call: string,
    decision: DecisionKind,
    change: { command?: string; reason?: string },
    draft = "",
  ): void {
    const answered = new Map(this.view.answered).set(call, decision);
    this.become({ answered });
    this.sendCommand(
      { type: "approval.decision", toolCallId: call, decision, ...change },
      "Answer not accepted",
      { call, draft },
    );
  }

  /**
   * Rejects a proposal with a message to the model. No model gets the result of a call of the viewer's own, so that the
   * message is then also the draft of the next prompt.
   */
  rejectWith(step: Pick<Step, "call" | "origin" | "askedBy">, message: string, viewer?: string): void {
    if (!isOwn(step, viewer)) return this.decide(step.call, "reject", { reason: message });
    this.sendDecision(step.call, "reject", { reason: message });
    this.appendToDraft(message);
    this.note("your text was not sent; it is in the box");
  }

  /** Requests the preview of an edited command; it replaces the preview of the call. */
  previewCommand(call: string, command: string): void {
    this.link.send({ type: "approval.preview", toolCallId: call, command });
  }

  /** Runs a step that was proposed while the session was read-only; the current mode judges it. */
  runStep({ tool, arguments: args }: Step): void {
    const given = typeof args === "object" && args !== null ? (args as Record<string, unknown>) : {};
    this.sendCall({ type: "direct", tool, arguments: given, origin: "plan" }, "Step not run");
  }

  /** Writes a file on the session's host, as the user's own call. */
  upload(path: string, content: string): void {
    this.sendCall(
      { type: "direct", tool: "write_file", arguments: { path, content }, origin: "typed" },
      "File not uploaded",
    );
  }

  /** Requests the undo of a call; its plan is sent as an approval request. */
  undoStep(call: string): void {
    this.sendCall({ type: "direct", tool: "undo", arguments: { call }, origin: "typed" }, "Call not undone");
  }

  /** Answers a program's prompt. The answer is sent and not stored. */
  answer(message: Extract<ClientMessage, { type: "question.answer" }>): void {
    this.sendCommand(message, "Answer not delivered");
  }

  pause(): void {
    this.sendCommand({ type: "pause" }, "Cannot pause");
  }

  resume(): void {
    this.sendCommand({ type: "resume" }, "Cannot resume");
  }

  stop(): void {
    this.returnTyped();
    this.become({ stopping: true });
    this.sendCommand({ type: "cancel" }, "Cannot stop");
  }

  /** Asks for a prompt that is still queued. It returns to the draft with the session's answer. */
  withdraw(content: string): void {
    if (this.view.status.state === "open") this.markQueued(content, true);
    this.sendCommand({ type: "prompt.withdraw", content }, "Message not taken back", { withdraws: content });
  }

  private markQueued(content: string, asked: boolean): void {
    const { waiting, held } = this.queued;
    this.keepQueued({ waiting: markAsked(waiting, content, asked), held });
  }

  /** Moves the running command to the background. */
  moveToBackground(): void {
    this.sendCommand({ type: "tool.background" }, "Cannot move the command to the background");
  }

  /** Requests the output so far of a background job; see `Step.job`. */
  readJob(jobId: number): void {
    if (this.view.transcript.phase === "paused")
      return this.note("not run: it would end the paused turn; resume or stop the turn first");
    const args = { action: "read", id: jobId };
    this.sendCall({ type: "direct", tool: "jobs", arguments: args, origin: "typed" }, "Job not read");
  }

  stopJob(jobId: number): void {
    this.sendCommand({ type: "job.stop", jobId }, "Job not stopped");
  }

  retry(): void {
    this.sending();
    this.sendCommand({ type: "retry" }, "Cannot retry");
  }

  /** Clears the history, and hides earlier items. */
  newChat(): void {
    this.returnTyped();
    this.become({ showsAll: false });
    this.sendCommand({ type: "clear" }, "Cannot start a new chat");
  }

  /** Hides all current items, in this tab only. */
  clearView(): void {
    const { transcript } = this.view;
    const clearedTo = transcript.dropped + transcript.items.length;
    storage.saveClearedTo(this.id, clearedTo);
    this.become({ clearedTo, showsAll: false });
  }

  showAll(): void {
    this.become({ showsAll: true });
  }

  /** Opens the search in the messages. Without words, an open one goes on with its own. */
  find(request: FindRequest): void {
    const { find } = this.view;
    this.become({ find: { ...((!request.words && find) || request), isNew: true } });
  }

  /** Changes the open search. */
  changeFind(change: Partial<OpenFind>): void {
    const { find } = this.view;
    if (find) this.become({ find: { ...find, ...change } });
  }

  closeFind(): void {
    this.become({ find: undefined });
  }

  configure(change: { model?: string; approve?: ApprovalMode; revoke?: RevokedGrant[] }): void {
    this.sendCommand({ type: "configure", ...change }, "Setting not changed");
  }

  /** Switches between agent and chat mode. The server reports the change to every tab. */
  setMode(mode: Mode): void {
    this.sendCommand({ type: "configure", mode }, "Mode not changed");
  }

  dismissError(id: number): void {
    this.become({ troubles: this.view.troubles.filter((trouble) => trouble.id !== id) });
  }

  trouble(problem: unknown, what = "Something went wrong"): void {
    if (problem instanceof RequestError) this.tell(problem.what, problem.why, problem.hint);
    else this.tell(what, problem instanceof Error ? problem.message : String(problem), "");
  }

  /** Sends a call that the user asks for. While a turn runs, its text returns to the draft, and a notice says why. */
  private sendCall(message: ClientMessage, what: string, more: Omit<SentCommand, "what"> = {}): void {
    const why = callRefusal(this.view.transcript.phase);
    if (why === undefined) return this.sendCommand(message, what, more);
    if (more.draft) this.appendToDraft(more.draft);
    this.note(why);
  }

  private sendCommand(message: ClientMessage, what: string, more: Omit<SentCommand, "what"> = {}): void {
    if (this.view.status.state !== "open") {
      if (more.draft) this.appendToDraft(more.draft);
      this.openAgain(more.call);
      this.tell(what, "the server is disconnected", "Try again when the connection is back.");
      this.become({ stopping: false });
      return;
    }
    const messageId = newId();
    this.sent.set(messageId, { what, ...more });
    if (this.sent.size > 100) this.sent.delete(this.sent.keys().next().value ?? "");
    this.link.send({ ...message, messageId } as ClientMessage);
  }

  private take(message: ServerMessage): void {
    if (message.type === "terminal.output" && message.ended === undefined) return; // the terminal's own business
    if (message.type === "error" && message.seq === undefined) this.refused(message);
    if (message.type === "session.created" && message.seq === undefined)
      this.historyEnd = message.lastSeq ?? 0;
    if ("seq" in message && message.seq !== undefined) this.received = message.seq;
    // The messages have no time, so calls of the history, and those that began before a reload, have none either.
    if (message.type === "tool.call" && !this.behind) {
      this.begun = new Map(this.begun).set(message.toolCallId, Date.now());
    }
    if (message.type === "tool.finished" && this.begun.has(message.toolCallId)) {
      const begun = new Map(this.begun);
      begun.delete(message.toolCallId);
      this.begun = begun;
    }
    if (message.type === "tool.finished" && message.name === "jobs" && !this.behind) {
      this.jobsRead = new Map(this.jobsRead).set(message.toolCallId, Date.now());
    }
    if (message.type === "state" && message.event === "step_started") {
      this.asked = this.behind ? undefined : Date.now();
    }
    const completes = this.behind && this.received >= this.historyEnd;
    this.behind = this.received < this.historyEnd;
    this.inbox.push(message);
    if (!this.scheduled) {
      this.scheduled = true;
      // History is not rendered piece by piece, because that would only take longer.
      const seen = typeof document !== "undefined" && document.visibilityState === "visible";
      if (seen && !this.behind) requestAnimationFrame(this.flush);
      setTimeout(this.flush, HIDDEN_MS);
    }
    if (completes) this.flush();
  }

  /** Processes the received messages. */
  readonly flush = (): void => {
    if (!this.scheduled) return;
    this.scheduled = false;
    const messages = this.inbox;
    this.inbox = [];
    const before = this.view;
    const transcript = fold(before.transcript, messages);
    const idle = transcript.phase === "idle";
    const stopping = before.stopping && !idle;
    const mode = transcript.facts?.mode ?? before.mode;
    this.become({
      transcript,
      stopping,
      caughtUp: isCaughtUp(transcript),
      mode,
      begun: this.begun,
      asked: this.asked,
      jobsRead: this.jobsRead,
    });
    this.returnQueued(messages);
    if (before.caughtUp) this.notifyUser(messages);
  };

  /** Notifies the user that a turn ended, or that an answer is needed. */
  private notifyUser(messages: readonly ServerMessage[]): void {
    const { transcript } = this.view;
    const where = shortHostLabel(transcript.facts?.host ?? "", this.machine);
    for (const message of messages) {
      if (message.type === "approval.request") {
        const waits = pendingApproval(transcript);
        const command = waits?.call === message.toolCallId ? waits.command : message.command;
        notify(this.id, `${where}: approval required`, neutralizeLine(command).slice(0, 200));
      } else if (message.type === "question") {
        notify(this.id, `${where}: input required`, neutralizeLine(message.question.from).slice(0, 200));
      } else if (message.type === "assistant.done") {
        const ended = message.metadata.stopReason === "end_turn" ? "done" : message.metadata.stopReason;
        const prompt = neutralizeLine(transcript.lastPrompt ?? "").slice(0, 200);
        notify(this.id, `${where}: ${ended.replace("_", " ")}`, prompt);
      }
    }
  }

  private refused(message: Extract<ServerMessage, { type: "error" }>): void {
    const sent = this.sent.get(message.replyTo ?? "");
    this.openAgain(sent?.call);
    if (sent?.draft) this.returnToDraft([{ content: sent.draft }]);
    if (sent?.withdraws !== undefined) this.markQueued(sent.withdraws, false);
    const what = sent?.what ?? "Server message";
    if (message.code === "draining" || message.code === "too_slow") return; // the link goes on by itself
    if (message.code === "no_terminal" && !sent) return; // the terminal says so itself
    // A page that may only watch learns that after its terminal has asked for its size.
    if (message.replyTo === TERMINAL_SIZE && message.code?.startsWith("forbidden")) return;
    const code: ErrorCode | "" = message.code ?? "";
    this.tell(what, message.message, hintFor(200, code));
  }

  /** Makes a call answerable again whose answer was not delivered. */
  private openAgain(call: string | undefined): void {
    if (call === undefined || !this.view.answered.has(call)) return;
    const answered = new Map(this.view.answered);
    answered.delete(call);
    this.become({ answered });
  }

  private tell(what: string, why: string, hint: string): void {
    const same = this.view.troubles.find((trouble) => trouble.what === what && trouble.why === why);
    if (same) return;
    this.troubleCount += 1;
    const troubles = [...this.view.troubles, { id: this.troubleCount, what, why, hint }].slice(-TROUBLES_MAX);
    this.become({ troubles });
  }

  private become(change: Partial<SessionView>): void {
    this.view = { ...this.view, ...change };
    for (const listener of [...this.listeners]) listener();
  }
}
