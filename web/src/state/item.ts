/** Items of a session's transcript, each with an id that is the same live and replayed. */
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

/** State of a model's text. A text that broke off is "stopped" if the turn ended because a user stopped it. */
export type TextState = "streaming" | "whole" | "broken" | "stopped";

/** Kind of a card, which determines its appearance. */
export type StepKind = "command" | "send_keys" | "tool";

/** Decision about a call. */
export type ApprovalState =
  | { state: "waiting" }
  | { state: "allowed"; by: string | undefined; session: boolean }
  | { state: "rejected"; by: string | undefined; reason: string };

/** Outcome of a call. */
export interface Outcome {
  status: Status;
  exitCode: number | undefined;
  truncated: boolean;
  output: string;
  durationMs: number;
  artefact: string | undefined;
  changes: readonly ChangedFile[];
  /** Changes of a command, as detected by its host. */
  changed: readonly SystemChange[];
  undo: Reversibility | undefined;
  hosts: readonly HostOutcome[];
  /** True if nothing ran because the host could not be reached. */
  unreachable?: boolean;
}

/** Result of a call on one of several hosts, reported while it still runs on others. */
export interface HostEnd {
  host: string;
  status: Status;
  exitCode: number | undefined;
  durationMs: number;
}

/** The server's judgment of a command that a user wrote instead of the proposed one. */
export interface Assessment {
  preview: readonly string[];
  risk: RiskClass | undefined;
  findings: readonly Finding[];
}

/** Background job of a call; the status is undefined while the job runs. */
export interface StepJob {
  jobId: number;
  status: Status | undefined;
  exitCode: number | undefined;
  /** Output of the job; undefined while it runs, and if it has none. */
  output: string | undefined;
  /** Name of the artifact with the full output. */
  artifact: string | undefined;
  /** Output so far of a job that runs, as last read by a user, and the call that read it. */
  read?: { call: CallId; output: string };
}

/** A tool call: request, decision and outcome. */
export interface Step {
  kind: "step";
  id: string;
  call: CallId;
  tool: string;
  effect: ToolEffect | undefined;
  cardKind: StepKind;
  arguments: unknown;
  /** The command, the keys, or a short form of the call. */
  command: string;
  /** Command to approve, byte for byte as sent by the server; offsets of findings refer to it. */
  proposal: string;
  /** Proposed command, if a user edited it. */
  editedFrom: string | undefined;
  reason: string;
  /** Effect preview: summary lines, perhaps followed by a diff. */
  preview: readonly string[];
  /** Assessments of edited commands, by command: those of this tab and of others. */
  edits: ReadonlyMap<string, Assessment>;
  origin: Origin;
  /** The user who asked for a call that no model proposed; undefined for the local user, and in older logs. */
  askedBy: string | undefined;
  risk: RiskClass | undefined;
  findings: readonly Finding[];
  /** Seconds after which the guard rolls the call back; undefined without a guard. */
  guardSeconds: number | undefined;
  /** Time at which the approval expires, in milliseconds since 1970; undefined for never. */
  expiresAt: number | undefined;
  /** Number of different people who must allow it. */
  people: number;
  /** People who have allowed it so far, if several must. */
  given: readonly string[];
  /** Scope of "for this session"; undefined for a call that needed no approval. */
  covers: Grant | undefined;
  /** Rule that "always" would write, and its file; undefined if not offered. */
  rule: { toml: string; file: string } | undefined;
  decided: ApprovalState;
  /** True if the call has started. */
  started: boolean;
  /** The newest output while it runs; empty afterwards. */
  tail: string;
  /** Number of characters before `tail`, and of line ends among them. */
  skipped: number;
  skippedLines: number;
  /** True if the page was not connected when the call began, so that earlier output is not in `tail`. */
  missedOutput: boolean;
  /** Hosts where the call has ended while it still runs on others. */
  hostsEnded: readonly HostEnd[];
  /** Outcome; undefined while the call runs or waits. */
  outcome: Outcome | undefined;
  /** The background job that the call started or became. */
  job: StepJob | undefined;
  /** Extent to which the call was undone; undefined if it was not. */
  undone: Reversibility | undefined;
  /** Calls that the call undid, if it is an undo that succeeded. */
  undid?: readonly CallId[];
  /** True for the reading of a background job whose output another card shows. */
  isTold?: boolean;
}

/** One line about an event. */
export interface Notice {
  kind: "notice";
  id: string;
  /** Backticks enclose what is shown as code. If there is a `by`, the text follows that name. */
  text: string;
  weight: "note" | "warning";
  /** The user who did it. */
  by?: string;
  /** The host that the text names; see `noticeText`. */
  host?: string;
}

export type Item =
  /** `named` is true if several people take part in the session, so that the sender is shown. */
  | { kind: "prompt"; id: string; text: string; by: string | undefined; named: boolean }
  | { kind: "answer"; id: string; text: string; state: TextState }
  | { kind: "reasoning"; id: string; text: string; state: TextState }
  | Step
  | { kind: "complete"; id: string; text: string }
  | Notice
  /** The history was cleared; the model does not know earlier items. */
  | { kind: "cleared"; id: string }
  | {
      kind: "end";
      id: string;
      reason: StopReason;
      error: string | undefined;
      usage: TokenCounts;
      iterations: number;
      /** Hosts that the turn's calls did not reach, as in `host` of a session. */
      missed?: string;
    };

/**
 * Returns true if the viewer asked for the call: a command, a routine or a step of a plan, for which `askedBy` names
 * nobody else; see `Proposal::is_own` in sysop-core.
 */
export function isOwn(
  { origin, askedBy }: Pick<Step, "origin" | "askedBy">,
  viewer: string | undefined,
): boolean {
  const isUsers = origin === "typed" || origin === "routine" || origin === "plan";
  return isUsers && (askedBy === undefined || askedBy === viewer);
}
