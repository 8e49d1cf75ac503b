/** What there is to read of a session: each item with a name that stays, live and replayed. */
import type {
  CallId,
  ChangedFile,
  Finding,
  Grant,
  HostOutcome,
  Origin,
  Reversibility,
  RiskClass,
  Status,
  StopReason,
  SystemChange,
  TokenCounts,
  ToolEffect,
} from "../wire";

/** How far a model's text has come. */
export type TextState = "streaming" | "whole" | "broken";

/** What a card is: it says how it looks. */
export type StepKind = "command" | "send_keys" | "tool";

/** What was decided about a call. */
export type ApprovalState =
  | { state: "waiting" }
  | { state: "allowed"; by: string | undefined; session: boolean }
  | { state: "rejected"; by: string | undefined; reason: string };

/** What came of a call. */
export interface Outcome {
  status: Status;
  exitCode: number | undefined;
  truncated: boolean;
  output: string;
  durationMs: number;
  artefact: string | undefined;
  changes: readonly ChangedFile[];
  /** What a command changed, as its host saw it. */
  changed: readonly SystemChange[];
  undo: Reversibility | undefined;
  hosts: readonly HostOutcome[];
}

/** How a call ended on one of several hosts, as told while it still runs elsewhere. */
export interface HostEnd {
  host: string;
  status: Status;
  exitCode: number | undefined;
  durationMs: number;
}

/** One call of a tool: what was wanted, what was decided and what came of it. */
export interface Step {
  kind: "step";
  id: string;
  call: CallId;
  tool: string;
  effect: ToolEffect | undefined;
  cardKind: StepKind;
  arguments: unknown;
  /** What runs: the command, the keys, or a short form of the call. */
  command: string;
  /** What a person is asked about, byte for byte as the server tells it; its findings count from here. */
  proposal: string;
  /** The command as it was proposed, where a person changed it. */
  editedFrom: string | undefined;
  reason: string;
  /** What a probe found that it would do; the first lines sum it up, a diff may follow. */
  preview: readonly string[];
  /** The edited command that `preview` is about; none for the proposed one. */
  previewCommand: string | undefined;
  origin: Origin;
  risk: RiskClass | undefined;
  findings: readonly Finding[];
  /** Seconds after which the host rolls the call back by itself; undefined without a guard. */
  guardSeconds: number | undefined;
  /** When it is rejected by itself, in milliseconds since 1970; undefined for never. */
  expiresAt: number | undefined;
  /** How many different people must allow it. */
  people: number;
  /** Who has allowed it so far, if several must. */
  given: readonly string[];
  /** What "for this session" covers; none for a call that was not asked about. */
  covers: Grant | undefined;
  /** The rule that "always" would write, and the file that it would be written to; none where that is not offered. */
  rule: { toml: string; file: string } | undefined;
  decided: ApprovalState;
  /** Whether it began. */
  started: boolean;
  /** The newest output while it runs; empty afterwards. */
  tail: string;
  /** How many characters came before `tail`. */
  skipped: number;
  /** Of several hosts, those where it has ended while it still runs elsewhere. */
  hostsEnded: readonly HostEnd[];
  /** How it ended; none while it runs or waits. */
  outcome: Outcome | undefined;
}

export type Item =
  | { kind: "prompt"; id: string; text: string }
  | { kind: "answer"; id: string; text: string; state: TextState }
  | { kind: "reasoning"; id: string; text: string; state: TextState }
  | Step
  | { kind: "complete"; id: string; text: string }
  | { kind: "notice"; id: string; text: string; weight: "note" | "warning" }
  /** From here on the model knows nothing of what was said before. */
  | { kind: "cleared"; id: string }
  | {
      kind: "end";
      id: string;
      reason: StopReason;
      error: string | undefined;
      usage: TokenCounts;
      iterations: number;
    };
