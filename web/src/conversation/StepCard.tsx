/** Card of a tool call: reasoning, command or keys, output, status (the step cards of juni-cli). */
import { Fragment, memo, useContext, useLayoutEffect, useMemo, useRef } from "react";
import { MeContext, useName } from "../app/me";
import { artifactPath } from "../protocol/api";
import type { Outcome, Step, StepJob, StepKind } from "../state/item";
import { SafeText } from "../text/Code";
import { CopyButton } from "../text/CopyButton";
import { changedLine } from "../text/changed-line";
import { editOf } from "../text/file-edit";
import { hostCounts, outcomeLabel } from "../text/host-results";
import { duration, jobLabel, originLabel, statusSign } from "../text/labels";
import { earlierLabel, lastLines } from "../text/last-lines";
import { neutralize, neutralizeLine, plainOutput } from "../text/neutralize";
import type { SessionId } from "../wire";
import { CommandText } from "./CommandText";
import { FileDiff } from "./FileDiff";
import { useUnfolded } from "./found";
import { JobsRead } from "./jobs-read";
import { Online } from "./online";
import { OMITTED, shownOutput, showsOutput } from "./step-output";
import { useOverwrite } from "./use-overwrite";

/** Longer output is collapsed at first. */
const SHOWN_CHARS_MAX = 20_000;
/** Output up to this length is not measured, because it fits into its box. */
const FITTING_CHARS_MAX = 240;
/** Maximum distance from the end at which a box of output keeps following it, in pixels. */
const NEAR_PX = 24;
/** The page was not connected when the call began, so it does not know if the call has printed something before. */
const MISSED_OUTPUT = "… Earlier output appears when the command ends.";
/** Lines of a command that are shown at first. */
const COMMAND_LINES = 10;
/** Rows of a box of output; see `.output`. */
const OUTPUT_ROWS = 14;
interface Props {
  step: Step;
  session: SessionId;
  /** Requests the undo of a call. */
  undo(call: string): void;
}

export const StepCard = memo(({ step, session, undo }: Props) => {
  const { outcome, decided } = step;
  const edit = useMemo(() => editOf(step.tool, step.arguments), [step.tool, step.arguments]);
  const overwrite = useOverwrite(step);
  if (decided.state === "waiting" && !outcome) return <WaitingStep step={step} />;
  const failed = outcome && !["ok", "rejected", "cancelled"].includes(outcome.status);
  const isRefused = decided.state === "rejected" || outcome?.status === "rejected";
  const neverRan = isRefused || (outcome?.status === "cancelled" && !step.started);
  const tone = neverRan ? "refused" : failed ? "failed" : "";
  return (
    <article
      className={`card step ${step.cardKind} ${tone}`}
      aria-label={`Call: ${neutralizeLine(step.tool)}`}
    >
      {step.reason && <p className="why">{neutralize(step.reason)}</p>}
      <div className="line">
        <span className="sign" aria-hidden="true">
          {tone === "refused" ? "⊘" : SIGNS[step.cardKind]}
        </span>
        <Command id={step.id} text={step.command} />
        {step.cardKind !== "tool" && <CopyButton text={step.command} />}
      </div>
      {step.editedFrom !== undefined && (
        <p className="meta">
          edited; proposed was <code>{neutralizeLine(step.editedFrom)}</code>
        </p>
      )}
      {edit && <FileDiff edit={edit} overwrite={overwrite} />}
      {showsOutput(step) && <Output step={step} />}
      <StatusLine step={step} session={session} />
      <Changed step={step} undo={undo} />
    </article>
  );
});

const SIGNS: Record<StepKind, string> = { send_keys: "⌨", command: ">", tool: "⚙" };

/** A command, of which the first lines are shown if it is long. */
function Command({ id, text }: { id: string; text: string }) {
  const [all, setAll] = useUnfolded(id, "command");
  const lines = text.split("\n");
  const long = lines.length > COMMAND_LINES;
  return (
    <code className="what">
      <CommandText text={long && !all ? lines.slice(0, COMMAND_LINES).join("\n") : text} />
      {long && (
        <button type="button" className="small more" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Show less" : allLines(lines.length)}
        </button>
      )}
    </code>
  );
}

function allLines(count: number): string {
  return `Show all ${count} lines`;
}

/** Offers to show the lines of an output, of which the middle may be omitted: the whole output is a download. */
function moreLines(raw: string, rows: number, outcome: Outcome | undefined): string {
  if (!outcome?.truncated) return allLines(rows);
  const gaps = [...raw.matchAll(OMITTED)].map(([, count = ""]) => Number(count.replaceAll(",", "")));
  const omitted = gaps.reduce((sum, count) => sum + count, 0);
  return omitted > 0
    ? `Show ${rows - gaps.length} of ${rows - gaps.length + omitted} lines`
    : `Show ${rows} lines`;
}

/** A pending call is shown in full only in its approval card. */
function WaitingStep({ step }: { step: Step }) {
  return (
    <article className="card step waiting" aria-label={`Call: ${neutralizeLine(step.tool)}`}>
      <span className="badge waiting">needs approval</span> <code>{neutralizeLine(step.tool)}</code>
    </article>
  );
}

function Output({ step }: { step: Step }) {
  const [unfolded, setUnfolded] = useUnfolded(step.id, "output");
  const { outcome } = step;
  const raw = shownOutput(step);
  // The output of each host begins with the host's name.
  const several = (outcome?.hosts.length ?? 0) > 1;
  const missed = !outcome && step.missedOutput;
  if (!raw.trim() && !missed) return null;
  const isLong = !several && raw.length > SHOWN_CHARS_MAX;
  const charsMax = unfolded || several ? Number.POSITIVE_INFINITY : SHOWN_CHARS_MAX;
  const { shown, lines, chars } = lastLines(raw, charsMax);
  const text = plainOutput(shown).replace(/\n+$/, "");
  const ended = outcome !== undefined;
  // A box that grows with a running command would push away what follows it.
  const rows = ended || isLong ? lines + text.split("\n").length : 0;
  const folds = isLong || rows > OUTPUT_ROWS;
  const all = unfolded && folds;
  return (
    <>
      {step.skipped > 0 && (
        <p className="meta">
          {earlierLabel(step.skippedLines, step.skipped)} not shown until the command ends
        </p>
      )}
      {chars > 0 && <p className="meta">{earlierLabel(lines, chars)} not shown</p>}
      <OutputBox
        wraps={outcome !== undefined && isMessage(step, outcome, rows)}
        text={missed ? `${MISSED_OUTPUT}\n${text}` : text}
        fromTop={several}
        whole={all && ended}
      />
      {folds && (
        <button type="button" className="small more" aria-expanded={all} onClick={() => setUnfolded(!all)}>
          {all ? "Show less" : rows > 1 ? moreLines(raw, rows, outcome) : "Show all of it"}
        </button>
      )}
    </>
  );
}

/** True for the reason of a call that did not run, of a tool that failed, or in one row: it has no columns. */
function isMessage({ cardKind }: Step, { status }: Outcome, rows: number): boolean {
  return status === "rejected" || (status !== "ok" && (cardKind === "tool" || rows === 1));
}

interface OutputBoxProps {
  text: string;
  /** True if long lines wrap in every window. */
  wraps: boolean;
  /** True if the beginning is shown first. */
  fromTop: boolean;
  /** True if the box is as high as its text. */
  whole: boolean;
}

/** A box of output. It follows its end until the user scrolls up. */
function OutputBox({ text, wraps, fromTop, whole }: OutputBoxProps) {
  const box = useRef<HTMLPreElement>(null);
  const follows = useRef(true);
  const wasWhole = useRef(whole);
  useLayoutEffect(() => {
    const { current } = box;
    if (current && wasWhole.current && !whole) current.scrollIntoView({ block: "nearest" });
    wasWhole.current = whole;
    if (!current || whole || !follows.current || text.length <= FITTING_CHARS_MAX) return;
    current.scrollTop = fromTop ? 0 : current.scrollHeight;
  }, [text, fromTop, whole]);
  return (
    <pre
      className={`output ${whole ? "whole" : ""} ${wraps ? "wraps" : ""}`}
      tabIndex={0}
      role="group"
      aria-label="Output"
      ref={box}
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        follows.current = scrollHeight - scrollTop - clientHeight < NEAR_PX;
      }}
    >
      {fromTop ? <HostOutputs text={text} /> : <SafeText text={text} />}
    </pre>
  );
}

/** Outputs of several hosts: the headings wrap, and the reasons why hosts were not reached. */
function HostOutputs({ text }: { text: string }) {
  // No line of an output begins like a heading; see `report.rs` in sysop-host.
  return text.split(/^(?=== )/m).map((part, at) => {
    const end = /^== .*: not run ==$/m.test(part) ? part.length : part.indexOf("\n") + 1 || part.length;
    return (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of an output keep their positions
      <Fragment key={at}>
        <span className="told">
          <SafeText text={part.slice(0, end)} />
        </span>
        <SafeText text={part.slice(end)} />
      </Fragment>
    );
  });
}

/** Changes of a call, and the button that undoes them, unless they are undone. */
function Changed({ step, undo }: { step: Step; undo(call: string): void }) {
  const { outcome, undone } = step;
  const me = useContext(MeContext);
  if (!outcome) return null;
  const line = changedLine(outcome.changed, undone ? undefined : outcome.undo, outcome.hosts);
  if (!line) return null;
  const undoable = outcome.undo === "exact" || outcome.undo === "partly";
  return (
    <footer className="status">
      <span className="changed">{line}</span>
      {undone && (
        <span className="undone">
          <span aria-hidden="true">↩</span> {undone === "exact" ? "undone" : "partly undone"}
        </span>
      )}
      {undoable && !undone && (me === undefined || me.operate) && (
        <button type="button" className="small" onClick={() => undo(step.call)}>
          Undo
        </button>
      )}
    </footer>
  );
}

function RunningBadge() {
  const online = useContext(Online);
  return (
    <span className="badge running">
      {online && <span className="spinner" aria-hidden="true" />}
      {online ? "running" : "last known: running"}
    </span>
  );
}

/** Time of day, to the second. */
function clock(time: number): string {
  return new Date(time).toLocaleTimeString();
}

/** The command went on as a background job, so that its own outcome says nothing about it. */
function JobBadge({ job: { jobId, status, exitCode } }: { job: StepJob }) {
  if (status === undefined) {
    return (
      <span className="badge running">
        <span aria-hidden="true">↻</span> running as job {jobId}
      </span>
    );
  }
  return (
    <span className={`badge ${status}`}>
      <span aria-hidden="true">{statusSign(status)}</span> job {jobId}: {jobLabel(status)}
      {exitCode !== undefined && `, exit code ${exitCode}`}
    </span>
  );
}

function StatusLine({ step, session }: { step: Step; session: SessionId }) {
  const { outcome, decided } = step;
  const nameOf = useName();
  const said: string[] = [];
  // The outcome tells if a call was dropped with its turn.
  if (decided.state === "rejected" && outcome?.status !== "cancelled") {
    const why = decided.reason ? `: ${neutralizeLine(decided.reason)}` : "";
    said.push(`rejected by ${decided.by === undefined ? "the policy" : nameOf(decided.by)}${why}`);
  } else if (decided.state === "allowed" && decided.by !== undefined) {
    said.push(`allowed${decided.session ? " for this session" : ""} by ${nameOf(decided.by)}`);
  }
  // The output has the reason: invalid arguments, a host that cannot be reached.
  if (decided.state === "waiting" && !step.started && outcome?.status === "failed") said.push("not run");
  const origin = originLabel(step, nameOf);
  if (origin !== undefined) said.push(origin);
  const hosts = outcome && hostCounts(outcome.hosts);
  const artifact = step.job?.artifact ?? outcome?.artefact;
  const job = outcome?.status === "ok" || outcome?.status === "timeout" ? step.job : undefined;
  const isRead = job?.read !== undefined && job.status === undefined;
  const readAt = useContext(JobsRead).get(job?.read?.call ?? "");
  return (
    <footer className="status">
      {job && <JobBadge job={job} />}
      {isRead && (
        <span>output {readAt === undefined ? "when it was last read" : `as of ${clock(readAt)}`}</span>
      )}
      {(outcome?.status === "rejected" || (!outcome && decided.state === "rejected")) && (
        <span className="badge refused">
          <span aria-hidden="true">⊘</span> not run
        </span>
      )}
      {outcome && outcome.status !== "rejected" && !job && (
        <span className={`badge ${outcome.status}`}>
          <span aria-hidden="true">{statusSign(outcome.status)}</span> {outcomeLabel(outcome)}
          {outcome.exitCode !== undefined && `, exit code ${outcome.exitCode}`}
        </span>
      )}
      {!outcome && step.started && <RunningBadge />}
      {outcome && outcome.durationMs > 0 && !["rejected", "unknown"].includes(outcome.status) && !job && (
        <span>{duration(outcome.durationMs)}</span>
      )}
      {outcome?.truncated && <span>truncated for the model</span>}
      {artifact && (
        <a href={artifactPath(session, artifact)} download={`${neutralizeLine(artifact)}.txt`}>
          full output
        </a>
      )}
      {outcome?.changed.length === 0 &&
        outcome.changes.map(({ path }) => <span key={path}>changed {neutralizeLine(path)}</span>)}
      {hosts && <span>{hosts}</span>}
      {said.map((text) => (
        <span key={text}>{text}</span>
      ))}
    </footer>
  );
}
