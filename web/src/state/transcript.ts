/**
 * Transcript of a session: folds the server's messages into items, a phase and totals, like `sysop_core::transcript`.
 * Pure: the same messages give the same transcript, live and replayed. Text is stored unchanged and is untrusted; views
 * must neutralize it.
 */

import { budgetLabel, callSummary, modeLabel, pauseLabel, typedLabel } from "../text/labels";
import { logNotice, type NoticeLine, taskNotice } from "../text/notices";
import type {
  ApprovalMode,
  AutoLeft,
  ClientToolSet,
  Grant,
  Mode,
  ModelRef,
  OfferedTool,
  Origin,
  PauseReason,
  PromptImage,
  Question,
  RiskClass,
  ServerMessage,
  SessionState,
  Skill,
  TodoItem,
  TokenCounts,
  ToolCallRequest,
  ToolEffect,
} from "../wire";
import type { Item, Step, TextState } from "./item";
import { hostEnds, isProgress, isRetrying, retried } from "./live-lines";
import { missedInTurn } from "./missed-hosts";
import { noReaders, type OutputReaders, readOutput } from "./output-readers";
import { nobody, noteParticipant, type Participants } from "./participants";
import { undoneCalls } from "./undone-calls";

/** Maximum items to keep; the oldest are dropped first. */
export const ITEMS_MAX = 20_000;
/** Items to buffer above the limit before the oldest are dropped, so that not every new item shifts the array. */
const ITEMS_SLACK = 1_000;
/** Maximum characters of streaming text; the rest is shown with the complete reply. */
export const LIVE_TEXT_MAX = 1024 * 1024;
/** Maximum characters of a running tool's output; the newest are kept. */
export const LIVE_OUTPUT_MAX = 64 * 1024;
/** Classes of calls that are allowed only once; see `RiskClass::always_asks` in sysop-shell. */
const ALWAYS_ASK: ReadonlySet<RiskClass | undefined> = new Set(["reads_secret", "dangerous", "lockout"]);
/** Placeholder for deltas that were missed between two connections. */
const MISSED = "\n\n[…]\n\n";

/** Configuration of a session. */
export interface SessionInfo {
  model: ModelRef;
  approve: ApprovalMode;
  host: string;
  root: string;
  profile: string;
  maxIterations: number;
  tools: readonly OfferedTool[];
  lent: ClientToolSet | undefined;
  mode: Mode;
  /** Remaining bounds of `auto` mode; undefined without bounds. */
  auto: AutoLeft | undefined;
}

/** A command that runs in the background. */
export interface Job {
  jobId: number;
  command: string;
  host: string;
}

/** Progress of a model call: of reading the prompt, if the server reports that, and of receiving the reply. */
export interface ModelProgress {
  /** Tokens of the prompt that the model's server has read, and all of them. */
  prompt: { done: number; total: number } | undefined;
  /** Tokens of the reply received so far, estimated. */
  received: number;
  /** Time since the first token of the reply, in milliseconds. */
  receivingMs: number;
}

/** Transcript of a session. */
export interface Transcript {
  items: readonly Item[];
  /** Index in `items` of the start of the current or last turn. */
  turnStart: number;
  /** Number of oldest items that were dropped. */
  dropped: number;
  facts: SessionInfo | undefined;
  phase: SessionState;
  pauseReason: PauseReason | undefined;
  /** True if the newest call ended because the server that ran it stopped. */
  interruptsCall: boolean;
  turn: number;
  iteration: number;
  maxIterations: number;
  /** True while a step is open; late deltas of a finished step are dropped. */
  stepOpen: boolean;
  /** Progress of the model call in flight, once the server reports it. */
  progress: ModelProgress | undefined;
  /** Queued prompts for the end of the turn. */
  queued: readonly string[];
  /** Commands in the background, oldest first. */
  jobs: readonly Job[];
  /** Grants that users gave for the session and did not revoke. */
  grants: readonly Grant[];
  /** The agent's task list. */
  tasks: readonly TodoItem[];
  /** Turn in which the tasks were last changed. */
  tasksTurn: number;
  /** Skills and custom commands that a prompt may name. */
  skills: readonly Skill[];
  usage: TokenCounts;
  /** Last received event. */
  seq: number;
  /** End of the history when the page connected. */
  historyEnd: number;
  questions: readonly Question[];
  /** User who controls the terminal while the agent waits. */
  holder: string | undefined;
  /** Calls of the last reply. */
  wanted: readonly ToolCallRequest[];
  /** Reason why the last model call failed, and why the turn ended. */
  failure: string | undefined;
  error: string | undefined;
  /** Last prompt, for a retry. */
  lastPrompt: string | undefined;
  liveNotices: number;
  /** Id of the notice of what is done before or after a command, while it is shown. */
  progressNotice: string | undefined;
  /** Id of the notice that the open request was tried again. */
  retryNotice: string | undefined;
  readers: OutputReaders;
  participants: Participants;
  /** Origin and sender of the call that the turn runs without a model; undefined for a turn with a prompt. */
  direct: { origin: Origin; by: string | undefined } | undefined;
}

export const emptyTranscript: Transcript = {
  items: [],
  turnStart: 0,
  dropped: 0,
  facts: undefined,
  phase: "idle",
  pauseReason: undefined,
  interruptsCall: false,
  turn: 0,
  iteration: 0,
  maxIterations: 0,
  stepOpen: false,
  progress: undefined,
  queued: [],
  jobs: [],
  grants: [],
  tasks: [],
  tasksTurn: 0,
  skills: [],
  usage: { inputTokens: 0, outputTokens: 0, cachedTokens: 0 },
  seq: 0,
  historyEnd: 0,
  questions: [],
  holder: undefined,
  wanted: [],
  failure: undefined,
  error: undefined,
  lastPrompt: undefined,
  liveNotices: 0,
  progressNotice: undefined,
  retryNotice: undefined,
  readers: noReaders,
  participants: nobody,
  direct: undefined,
};

/** Folds messages into a new transcript. Unknown types are ignored. */
export function fold(before: Transcript, messages: readonly ServerMessage[]): Transcript {
  if (messages.length === 0) return before;
  const draft = new TranscriptBuilder(before);
  for (const message of messages) draft.take(message);
  return draft.done();
}

/** Returns true if the history at connect time has been received. */
export function isCaughtUp(transcript: Transcript): boolean {
  return transcript.facts !== undefined && transcript.seq >= transcript.historyEnd;
}

/** Pending approval. */
export function pendingApproval(transcript: Transcript): Step | undefined {
  for (let at = transcript.items.length - 1; at >= transcript.turnStart; at -= 1) {
    const item = transcript.items[at];
    if (item?.kind === "step" && item.decided.state === "waiting" && !item.outcome) return item;
  }
  return undefined;
}

/** Start of the conversation that the model knows. */
export function contextStart(transcript: Transcript): number {
  for (let at = transcript.items.length - 1; at >= 0; at -= 1) {
    if (transcript.items[at]?.kind === "cleared") return at + 1;
  }
  return 0;
}

type Body<K extends Item["kind"]> = Extract<Item, { kind: K }>;

/** Mutable transcript used while folding; never exposed. */
class TranscriptBuilder {
  private readonly next: { -readonly [K in keyof Transcript]: Transcript[K] };
  private readonly items: Item[];

  constructor(before: Transcript) {
    this.items = [...before.items];
    this.next = { ...before, items: this.items };
  }

  done(): Transcript {
    const surplus = this.items.length - ITEMS_MAX;
    if (surplus > ITEMS_SLACK) {
      this.items.splice(0, surplus);
      this.next.dropped += surplus;
      this.next.turnStart = Math.max(0, this.next.turnStart - surplus);
    }
    return this.next;
  }

  take(message: ServerMessage): void {
    const { next } = this;
    if ("seq" in message && message.seq !== undefined) next.seq = Math.max(next.seq, message.seq);
    next.readers = readOutput(next.readers, message, next.facts?.model);
    this.noteParticipant(message);
    switch (message.type) {
      case "session.created":
        return this.created(message);
      case "configured":
        return this.configured(message);
      case "prompt.queued":
        next.queued = [...next.queued, message.content];
        return;
      case "prompt.withdrawn": {
        const at = next.queued.lastIndexOf(message.content);
        next.queued = next.queued.filter((_, other) => other !== at);
        return;
      }
      case "user.message":
        return this.turnBegins(message.content, message.images, message.by);
      case "assistant.delta":
        return this.stream("answer", message.content);
      case "assistant.reasoning":
        return this.stream("reasoning", message.content);
      case "assistant.progress":
        return this.modelProgress(message);
      case "assistant.restarted":
        next.progress = undefined;
        this.removeStreaming();
        return;
      case "assistant.message":
        this.whole("reasoning", message.reasoning ?? "");
        this.whole("answer", message.content);
        return;
      case "step.finished":
        return this.stepFinished(message);
      case "step.failed":
        this.breakStream();
        this.closeStep();
        next.failure = message.message;
        return;
      case "assistant.done":
        return this.turnEnds(message.metadata);
      case "tool.call":
        return this.toolStarted(message);
      case "tool.output":
        this.endProgress();
        return this.output(message.toolCallId, message.content);
      case "tool.finished":
        this.endProgress();
        return this.toolFinished(message);
      case "approval.request":
        return this.asked(message);
      case "approval.preview":
        return this.previewed(message);
      case "approval.closed":
        return this.decided(message);
      case "state":
        return this.state(message);
      case "notice":
        return this.liveNotice(message.content);
      case "question":
        next.questions = [...next.questions.filter(({ id }) => id !== message.question.id), message.question];
        return;
      case "question.closed":
        next.questions = next.questions.filter(({ id }) => id !== message.id);
        return;
      case "terminal.control":
        next.holder = message.holder;
        return;
      case "terminal.output":
        if (message.ended !== undefined) next.holder = undefined;
        return;
      case "terminal.typed":
        return this.notice(message.seq, { text: typedLabel(message.typed), weight: "note", by: message.by });
      case "todo":
        return this.tasksChanged(message);
      case "job.started": // the card of its call names the job
        return this.jobs(message);
      case "context.compacted":
      case "instructions":
      case "prompt.expanded":
      case "job.finished":
      case "guard.armed":
      case "guard.ended":
      case "approval.given":
      case "undone": {
        if (message.type === "instructions") next.skills = message.skills ?? [];
        if (message.type === "approval.given") this.given(message.toolCallId, message.by);
        if (message.type === "undone" && message.how !== "none") this.undone(message.toolCallId, message.how);
        this.jobs(message);
        return this.notice(message.seq, logNotice(message));
      }
      case "error":
        if (message.seq !== undefined) next.error = message.message;
        return;
      default:
        return; // the connection's own, the terminal's, or of a later version
    }
  }

  private created(message: Extract<ServerMessage, { type: "session.created" }>): void {
    const { next } = this;
    next.facts = {
      model: message.model,
      approve: message.approve,
      host: message.host,
      root: message.root,
      profile: message.profile,
      maxIterations: message.maxIterations,
      tools: message.tools,
      lent: message.lent,
      mode: message.mode,
      // The answer to `hello` contains the mode but not its bounds; a `state` follows if they changed.
      auto: message.seq === undefined && message.approve === "auto" ? next.facts?.auto : undefined,
    };
    next.maxIterations = message.maxIterations;
    if (message.seq !== undefined) return;
    next.historyEnd = message.lastSeq ?? 0;
    // The server repeats the open questions; text that was streamed in the meantime was missed.
    next.questions = [];
    for (let at = this.items.length - 1; at >= next.turnStart; at -= 1) {
      const item = this.items[at];
      if ((item?.kind === "answer" || item?.kind === "reasoning") && item.state === "streaming") {
        this.items[at] = { ...item, text: item.text + MISSED };
      } else if (item?.kind === "step" && item.started && !item.outcome) {
        this.items[at] = item.tail ? { ...item, tail: item.tail + MISSED } : { ...item, missedOutput: true };
      }
    }
  }

  private configured(message: Extract<ServerMessage, { type: "configured" }>): void {
    const { facts } = this.next;
    const said: string[] = [];
    const change: Partial<{ -readonly [K in keyof SessionInfo]: SessionInfo[K] }> = {};
    if (message.model !== undefined) {
      change.model = message.model;
      said.push(`model set to ${message.model}`);
    }
    if (message.approve !== undefined) {
      change.approve = message.approve;
      const { reached } = message;
      said.push(
        reached === undefined
          ? `approval mode set to \`${message.approve}\``
          : `auto ended after ${reached}; the mode is \`ask\` again`,
      );
    }
    if (message.mode !== undefined) {
      change.mode = message.mode;
      said.push(modeLabel(message.mode));
    }
    if (message.effort !== undefined) said.push(`reasoning effort set to \`${message.effort}\``);
    if (message.budget !== undefined) said.push(`budget set: ${budgetLabel(message.budget)}`);
    if (message.lent !== undefined) {
      const { tools, root } = message.lent;
      change.lent = tools.length > 0 ? message.lent : undefined;
      this.next.grants = []; // grants are valid only where the tools ran
      const names = tools.map(({ name }) => name).join(", ");
      said.push(tools.length > 0 ? `tools on a client in ${root}: ${names}` : "client tools disconnected");
    }
    if (message.revoked !== undefined) {
      const revoked = new Set(message.revoked.map((grant) => JSON.stringify(grant)));
      this.next.grants = this.next.grants.filter((grant) => !revoked.has(JSON.stringify(grant)));
      said.push(
        revoked.size === 1 ? "a permission for this session revoked" : "permissions for this session revoked",
      );
    }
    if (facts) this.next.facts = { ...facts, ...change };
    if (said.length > 0) this.notice(message.seq, { text: said.join("; "), weight: "note" });
  }

  /** Once several people took part, every prompt shows its sender. */
  private noteParticipant(message: ServerMessage): void {
    const { next } = this;
    const { several } = next.participants;
    next.participants = noteParticipant(next.participants, message);
    if (several || !next.participants.several) return;
    this.items.forEach((item, at) => {
      if (item.kind === "prompt") this.items[at] = { ...item, named: true };
    });
  }

  private turnBegins(prompt: string, images: PromptImage[] = [], by?: string): void {
    const { next } = this;
    const waited = next.queued.indexOf(prompt);
    if (waited >= 0) next.queued = next.queued.filter((_, at) => at !== waited);
    next.lastPrompt = prompt;
    // The `state` with the turn's number follows; turns are counted one by one.
    this.beginTurn(next.turn + 1);
    const lines = images.map(
      ({ width, height, name }) => `[${`image ${width}×${height} ${name ?? ""}`.trim()}]`,
    );
    const text = [prompt, ...lines].join("\n");
    const named = next.participants.several;
    this.items.push({ kind: "prompt", id: `prompt-${next.turn}`, text, by, named });
  }

  private beginTurn(turn: number): void {
    const { next } = this;
    next.turn = turn;
    next.iteration = 0;
    next.turnStart = this.items.length;
    next.wanted = [];
    next.direct = undefined;
    next.failure = undefined;
    next.error = undefined;
    next.interruptsCall = false;
    this.closeStep();
  }

  private closeStep(): void {
    this.endRetries();
    this.next.retryNotice = undefined;
    this.next.stepOpen = false;
    this.next.progress = undefined;
  }

  private modelProgress(message: Extract<ServerMessage, { type: "assistant.progress" }>): void {
    if (!this.next.stepOpen) return; // late
    const { promptDone, promptTotal, received, receivingMs } = message;
    const prompt =
      promptDone === undefined || promptTotal === undefined
        ? undefined
        : { done: promptDone, total: promptTotal };
    this.next.progress = { prompt, received, receivingMs };
  }

  private stepId(kind: "answer" | "reasoning"): string {
    return `${kind}-${this.next.turn}.${this.next.iteration}`;
  }

  private stream(kind: "answer" | "reasoning", piece: string): void {
    if (!this.next.stepOpen) return; // late: the log has or will have the whole
    this.endRetries();
    const id = this.stepId(kind);
    const at = this.find(id);
    const item = this.items[at];
    if (item === undefined) {
      this.items.push({ kind, id, text: piece.slice(0, LIVE_TEXT_MAX), state: "streaming" });
    } else if ((item.kind === "answer" || item.kind === "reasoning") && item.state === "streaming") {
      const room = LIVE_TEXT_MAX - item.text.length;
      if (room > 0) this.items[at] = { ...item, text: item.text + piece.slice(0, room) };
    }
  }

  /** Moves streamed text to its final position, as in a replay. */
  private whole(kind: "answer" | "reasoning", text: string): void {
    const id = this.stepId(kind);
    const at = this.find(id);
    if (at >= 0) this.items.splice(at, 1);
    if (text) this.items.push({ kind, id, text, state: "whole" });
  }

  private removeStreaming(): void {
    for (const kind of ["answer", "reasoning"] as const) {
      const at = this.find(this.stepId(kind));
      const item = this.items[at];
      if ((item?.kind === "answer" || item?.kind === "reasoning") && item.state === "streaming") {
        this.items.splice(at, 1);
      }
    }
  }

  private breakStream(): void {
    for (const kind of ["answer", "reasoning"] as const) {
      const at = this.find(this.stepId(kind));
      const item = this.items[at];
      if ((item?.kind === "answer" || item?.kind === "reasoning") && item.state === "streaming") {
        const state: TextState = "broken";
        this.items[at] = { ...item, state };
      }
    }
  }

  private stepFinished(message: Extract<ServerMessage, { type: "step.finished" }>): void {
    const { next } = this;
    const { usage } = message;
    // A reply without text has no message, so text that was streamed for it is void.
    this.removeStreaming();
    this.closeStep();
    next.iteration = message.iteration;
    next.wanted = message.toolCalls ?? [];
    next.usage = {
      inputTokens: next.usage.inputTokens + usage.inputTokens,
      outputTokens: next.usage.outputTokens + usage.outputTokens,
      cachedTokens: next.usage.cachedTokens + usage.cachedTokens,
    };
  }

  private asked(message: Extract<ServerMessage, { type: "approval.request" }>): void {
    const {
      toolCallId: call,
      name,
      command,
      reason,
      risk,
      findings,
      covers,
      always,
      rulesFile,
      guarded,
      expiresAt,
      approvals,
    } = message;
    const step = this.stepOf(call, name, message.arguments);
    const { direct } = this.next;
    this.put({
      ...step,
      origin: direct?.origin ?? "model",
      askedBy: direct?.by,
      command: step.cardKind === "command" ? command : step.command,
      proposal: command,
      reason,
      risk,
      findings: findings ?? [],
      guardSeconds: guarded?.seconds,
      expiresAt,
      people: approvals ?? 1,
      given: [],
      preview: message.preview ?? [],
      edits: new Map(),
      covers,
      rule: always === undefined ? undefined : { toml: always, file: rulesFile ?? "" },
      decided: { state: "waiting" },
    });
  }

  private previewed(message: Extract<ServerMessage, { type: "approval.preview" }>): void {
    const { toolCallId, preview, command, risk, findings = [] } = message;
    this.change(toolCallId, (step) =>
      command === undefined
        ? { ...step, preview }
        : { ...step, edits: new Map(step.edits).set(command, { preview, risk, findings }) },
    );
  }

  /** A client that joins late receives consents that its request already contains. */
  private given(call: string, by: string): void {
    this.change(call, (step) => (step.given.includes(by) ? step : { ...step, given: [...step.given, by] }));
  }

  private decided(message: Extract<ServerMessage, { type: "approval.closed" }>): void {
    const { by, decision, command } = message;
    this.change(message.toolCallId, (step) => {
      const { covers, risk } = step;
      if (decision === "allow_session" && covers && !ALWAYS_ASK.has(risk))
        this.granted(command === undefined ? covers : { exact: { command } });
      const edited = command !== undefined && command !== step.command && decision !== "reject";
      return {
        ...step,
        command: edited ? command : step.command,
        editedFrom: edited ? step.command : step.editedFrom,
        decided:
          decision === "reject"
            ? { state: "rejected", by, reason: message.reason ?? "" }
            : { state: "allowed", by, session: decision === "allow_session" },
      };
    });
  }

  private granted(grant: Grant): void {
    const { grants } = this.next;
    const isSame = (other: Grant) => JSON.stringify(other) === JSON.stringify(grant);
    if (!grants.some(isSame)) this.next.grants = [...grants, grant];
  }

  private toolStarted(message: Extract<ServerMessage, { type: "tool.call" }>): void {
    const { toolCallId: call, name, origin } = message;
    if (this.effectOf(name) === "completes") {
      if (!this.next.wanted.some(({ toolCallId }) => toolCallId === call)) {
        this.next.wanted = [...this.next.wanted, { toolCallId: call, name, arguments: message.arguments }];
      }
      return;
    }
    const askedBy = origin === "model" ? undefined : this.next.direct?.by;
    // The output of a call is not in the log, so that of a call in the history is known only at its end.
    const missedOutput = message.seq <= this.next.historyEnd;
    const known = this.change(call, (step) => ({
      ...step,
      arguments: message.arguments,
      origin,
      askedBy,
      started: true,
      missedOutput,
      decided:
        step.decided.state === "waiting" ? { state: "allowed", by: undefined, session: false } : step.decided,
    }));
    if (!known) {
      const step = this.stepOf(call, name, message.arguments);
      this.put({ ...step, origin, askedBy, started: true, missedOutput });
    }
    if (name === "jobs" && this.readJobOf(call)) this.change(call, (step) => ({ ...step, isTold: true }));
  }

  private output(call: string, piece: string): void {
    this.change(call, (step) => {
      if (step.outcome) return step;
      const tail = step.tail + piece;
      const line = step.tail.lastIndexOf("\n") + 1;
      const hostsEnded = [...step.hostsEnded, ...hostEnds(tail.slice(line))];
      if (tail.length <= LIVE_OUTPUT_MAX) return { ...step, tail, hostsEnded };
      // Remove half at once, so that long output is not moved for each chunk; at the beginning of a line if one is
      // near.
      let cut = tail.length - LIVE_OUTPUT_MAX / 2;
      const next = tail.indexOf("\n", cut);
      if (next >= 0 && next - cut < 1_000) cut = next + 1;
      const skippedLines = step.skippedLines + lineEnds(tail.slice(0, cut));
      return { ...step, tail: tail.slice(cut), skipped: step.skipped + cut, skippedLines, hostsEnded };
    });
  }

  private toolFinished(message: Extract<ServerMessage, { type: "tool.finished" }>): void {
    const { toolCallId: call, status } = message;
    const wanted = this.next.wanted.find(({ toolCallId }) => toolCallId === call);
    const name = message.name ?? wanted?.name ?? "";
    if (status === "ok" && this.effectOf(name) === "completes") {
      const summary = textArgument(wanted?.arguments, "summary") ?? message.output;
      this.items.push({ kind: "complete", id: `complete-${call}`, text: summary });
      return;
    }
    // The list is shown by itself, and its changes are notices.
    if (status === "ok" && name === "todo") return;
    const outcome = {
      status,
      exitCode: message.exitCode,
      truncated: message.truncated,
      output: message.output,
      durationMs: message.durationMs,
      artefact: message.artefact,
      changes: message.changes ?? [],
      hosts: message.hosts ?? [],
      changed: message.changed ?? [],
      undo: message.undo,
      ...(message.unreachable && { unreachable: true }),
    };
    const refused =
      status === "rejected" ? ({ state: "rejected", by: undefined, reason: "" } as const) : undefined;
    // A call that no model proposed has a start even if it was denied.
    const isUnasked = ({ origin, decided }: Step) =>
      origin !== "model" && decided.state === "allowed" && decided.by === undefined;
    const known = this.change(call, (step) => ({
      ...step,
      tail: "",
      skipped: 0,
      skippedLines: 0,
      missedOutput: false,
      ...(status !== "ok" && { isTold: false }),
      outcome,
      decided: step.decided.state === "waiting" || isUnasked(step) ? (refused ?? step.decided) : step.decided,
    }));
    if (!known) {
      const step = this.stepOf(call, name, wanted?.arguments);
      this.put({ ...step, outcome, decided: refused ?? step.decided });
    }
    const step = this.items[this.find(`step-${call}`)];
    this.next.interruptsCall = status === "interrupted" && step?.kind === "step" && step.started;
    if (status === "ok" && name === "undo") this.undoEnded(call);
    if (status === "ok" && name === "jobs") this.jobRead(call, message.output);
  }

  /** Shows the output so far on the card of the job, if a user has asked for it. */
  private jobRead(call: string, output: string): void {
    const jobId = this.readJobOf(call);
    const at = this.findJob(jobId);
    const step = this.items[at];
    if (step?.kind !== "step" || step.job === undefined) return;
    // The command may itself contain what looks like the note.
    const command = this.next.jobs.find((job) => job.jobId === jobId)?.command;
    const note = `[job ${jobId} is running: `;
    const whole = output.lastIndexOf(`${note}${command}]`);
    const end = whole >= 0 ? whole : output.lastIndexOf(note);
    const read = { call, output: end < 0 ? output : output.slice(0, end) };
    this.items[at] = { ...step, job: { ...step.job, read } };
  }

  /** Returns the running job that a user reads with this call. */
  private readJobOf(call: string): number | undefined {
    const reading = this.items[this.findCall(call)];
    if (reading?.kind !== "step" || reading.origin === "model") return undefined;
    const { action, id } = (reading.arguments ?? {}) as { action?: unknown; id?: number };
    const isRead = action === "read" && this.next.jobs.some(({ jobId }) => jobId === id);
    return isRead && this.findJob(id) >= 0 ? id : undefined;
  }

  private findJob(jobId: unknown): number {
    return this.items.findLastIndex((item) => item.kind === "step" && item.job?.jobId === jobId);
  }

  /** An undo of what file tools changed has no event of its own. An undo of an undo redoes the first calls. */
  private undoEnded(call: string): void {
    const at = this.findCall(call);
    const undo = this.items[at];
    if (undo?.kind !== "step") return;
    const undid = undoneCalls(this.items.slice(0, at), undo);
    this.items[at] = { ...undo, undid };
    for (const undone of undid) {
      this.undone(undone, "exact");
      const earlier = this.items[this.findCall(undone)];
      const redone = earlier?.kind === "step" ? (earlier.undid ?? []) : [];
      for (const again of redone) this.undone(again, undefined);
    }
  }

  private undone(call: string, how: Step["undone"]): void {
    const at = this.findCall(call);
    const step = this.items[at];
    // The event of an undo precedes its end, and knows better what was restored.
    if (step?.kind !== "step" || (how !== undefined && step.undone !== undefined)) return;
    this.items[at] = { ...step, undone: how };
  }

  private tasksChanged({ seq, items }: Extract<ServerMessage, { type: "todo" }>): void {
    const line = taskNotice(this.next.tasks, items);
    this.next.tasks = items;
    this.next.tasksTurn = this.next.turn;
    this.notice(seq, line);
  }

  private jobs(message: ServerMessage): void {
    const { next } = this;
    if (message.type === "job.started") {
      const { jobId, command, host } = message;
      next.jobs = [...next.jobs.filter((job) => job.jobId !== jobId), { jobId, command, host }];
      const job = { jobId, status: undefined, exitCode: undefined, output: undefined, artifact: undefined };
      this.change(message.toolCallId, (step) => ({ ...step, job }));
    } else if (message.type === "job.finished") {
      const { jobId, status, exitCode, output } = message;
      const ended = { jobId, status, exitCode, output: output?.text, artifact: output?.artifact };
      next.jobs = next.jobs.filter((job) => job.jobId !== jobId);
      const at = this.findJob(jobId);
      const step = this.items[at];
      if (step?.kind === "step") this.items[at] = { ...step, job: ended };
    }
  }

  private state(message: Extract<ServerMessage, { type: "state" }>): void {
    const { next } = this;
    if (message.event === "turn_started" && message.turn !== next.turn) this.beginTurn(message.turn);
    if (message.event === "turn_started") next.direct = { origin: message.origin ?? "typed", by: message.by };
    next.turn = message.turn;
    next.phase = message.state;
    next.pauseReason = message.pauseReason;
    next.iteration = message.iteration;
    next.maxIterations = message.maxIterations;
    if (next.queued.length > message.queued)
      next.queued = next.queued.slice(next.queued.length - message.queued);
    if (message.queued === 0) next.queued = [];
    const { facts } = next;
    if (facts) {
      const model = message.model ?? facts.model;
      const { approve, auto } = message;
      if (model !== facts.model || approve !== facts.approve || auto !== facts.auto) {
        next.facts = { ...facts, model, approve, auto };
      }
    }
    switch (message.event) {
      case "step_started":
        next.stepOpen = true;
        next.progress = undefined;
        return;
      case "paused":
        if (message.pauseReason && message.pauseReason !== "asked") {
          const detail = message.pauseDetail ? `: ${message.pauseDetail}` : "";
          const text = pauseLabel(message.pauseReason, next.interruptsCall);
          this.notice(message.seq, { text: text + detail, weight: "warning" });
        }
        return;
      case "resumed":
        next.interruptsCall = false;
        return;
      case "compacted":
        if (message.keptMessages !== undefined) {
          const text = `context trimmed: sending only the last ${message.keptMessages} messages`;
          this.notice(message.seq, { text, weight: "note" });
        }
        return;
      case "history_cleared":
        return this.cleared(message.seq);
      default:
        if (message.historyCleared) this.cleared(message.seq);
    }
  }

  private cleared(seq: number): void {
    const id = `cleared-${seq}`;
    if (this.items.at(-1)?.id === id) return;
    this.items.push({ kind: "cleared", id });
    this.next.turnStart = this.items.length;
    this.next.lastPrompt = undefined;
    this.next.tasks = [];
  }

  private turnEnds(metadata: Extract<ServerMessage, { type: "assistant.done" }>["metadata"]): void {
    const { next } = this;
    this.breakStream();
    this.endProgress();
    if (metadata.stopReason === "cancelled") this.endRetries(true);
    const { stopReason: reason, usage, iterations, turn } = metadata;
    const error = next.error ?? (reason === "failed" ? next.failure : undefined);
    next.phase = "idle";
    next.pauseReason = undefined;
    this.closeStep();
    next.turn = turn;
    next.wanted = [];
    next.failure = undefined;
    next.error = undefined;
    if (reason === "cancelled") this.endBroken();
    const missed = missedInTurn(this.items.slice(next.turnStart), next.facts?.host ?? "");
    const told = missed === undefined ? {} : { missed };
    this.items.push({ kind: "end", id: `end-${turn}`, reason, error, usage, iterations, ...told });
  }

  /** The end of a turn that a user stopped says why the answer of its last step is incomplete. */
  private endBroken(): void {
    const at = this.find(this.stepId("answer"));
    const item = this.items[at];
    if (item?.kind === "answer" && item.state === "broken") this.items[at] = { ...item, state: "stopped" };
  }

  private liveNotice(text: string): void {
    if (isProgress(text)) this.endProgress();
    // Other notices may have followed that of the earlier attempts.
    const retry = isRetrying(text) ? this.next.retryNotice : undefined;
    const at = retry === undefined ? -1 : this.find(retry);
    const earlier = this.items[at];
    if (earlier?.kind === "notice") {
      this.items[at] = { ...earlier, text };
      return;
    }
    this.next.liveNotices += 1;
    const id = `live-${this.next.liveNotices}`;
    if (isProgress(text)) this.next.progressNotice = id;
    if (isRetrying(text)) this.next.retryNotice = id;
    this.items.push({ kind: "notice", id, text, weight: "note" });
  }

  /** Removes the notice of what is done before or after a command, once it is over. */
  private endProgress(): void {
    const id = this.next.progressNotice;
    if (id === undefined) return;
    this.next.progressNotice = undefined;
    const at = this.items.findLastIndex((item) => item.id === id);
    if (at >= 0) this.items.splice(at, 1);
  }

  /** Says that the retries of the open request are over. */
  private endRetries(stopped = false): void {
    const id = this.next.retryNotice;
    if (id === undefined) return;
    const at = this.find(id);
    const item = this.items[at];
    if (item?.kind === "notice" && isRetrying(item.text))
      this.items[at] = { ...item, text: retried(item.text, stopped) };
  }

  private notice(seq: number, line: NoticeLine): void {
    this.items.push({ kind: "notice", id: `notice-${seq}`, ...line });
  }

  private effectOf(name: string): ToolEffect | undefined {
    const { facts } = this.next;
    const named = (tool: OfferedTool) => tool.name === name;
    return (facts?.lent?.tools.find(named) ?? facts?.tools.find(named))?.effect;
  }

  /** Returns a step of which only the request is known. */
  private stepOf(call: string, tool: string, args: unknown): Step {
    const effect = this.effectOf(tool);
    const keys = effect === "keys" || tool === "send_keys" ? textArgument(args, "keys") : undefined;
    // An argument named `command` does not make a tool a command if the tool is known to have another effect.
    const runs = effect === undefined || effect === "command";
    const command = runs ? textArgument(args, "command") : undefined;
    return {
      kind: "step",
      id: `step-${call}`,
      call,
      tool,
      effect,
      cardKind: keys !== undefined ? "send_keys" : command !== undefined ? "command" : "tool",
      arguments: args,
      command: keys ?? command ?? callSummary(tool, args),
      proposal: "",
      editedFrom: undefined,
      reason: textArgument(args, "reasoning") ?? textArgument(args, "reason") ?? "",
      origin: "model",
      askedBy: undefined,
      risk: undefined,
      findings: [],
      guardSeconds: undefined,
      expiresAt: undefined,
      people: 1,
      given: [],
      preview: [],
      edits: new Map(),
      covers: undefined,
      rule: undefined,
      decided: { state: "allowed", by: undefined, session: false },
      started: false,
      tail: "",
      skipped: 0,
      skippedLines: 0,
      missedOutput: false,
      hostsEnded: [],
      outcome: undefined,
      job: undefined,
      undone: undefined,
    };
  }

  /** Replaces the step of this call in place, or adds it. */
  private put(step: Step): void {
    const at = this.find(step.id);
    if (at >= 0) this.items[at] = step;
    else this.items.push(step);
  }

  private change(call: string, change: (step: Body<"step">) => Step): boolean {
    const at = this.find(`step-${call}`);
    const step = this.items[at];
    if (step?.kind !== "step") return false;
    this.items[at] = change(step);
    return true;
  }

  /** Searches all items, because a call may be undone much later. */
  private findCall(call: string): number {
    return this.items.findLastIndex((item) => item.kind === "step" && item.call === call);
  }

  /** Searches the items of the turn only, because earlier ones do not change any more. */
  private find(id: string): number {
    for (let at = this.items.length - 1; at >= this.next.turnStart; at -= 1) {
      if (this.items[at]?.id === id) return at;
    }
    return -1;
  }
}

function lineEnds(text: string): number {
  return text.split("\n").length - 1;
}

function textArgument(args: unknown, name: string): string | undefined {
  if (typeof args !== "object" || args === null) return undefined;
  const value = (args as Record<string, unknown>)[name];
  return typeof value === "string" ? value : undefined;
}
