/** Card of a tool call: reasoning, command or keys, output, status (the step cards of juni-cli). */
import { memo, useMemo, useState } from "react";
import { useName } from "../app/me";
import { artifactPath } from "../protocol/api";
import type { Outcome, Step } from "../state/item";
import { SafeText } from "../text/Code";
import { CopyButton } from "../text/CopyButton";
import { editOf } from "../text/file-edit";
import { changedLine, duration, hostGroups, originLabel, statusLabel, statusSign } from "../text/labels";
import { neutralize, neutralizeLine, plainOutput } from "../text/neutralize";
import type { SessionId } from "../wire";
import { CommandText } from "./CommandText";
import { FileDiff } from "./FileDiff";

/** Longer output is collapsed at first. */
const SHOWN_CHARS_MAX = 20_000;

interface Props {
  step: Step;
  session: SessionId;
  /** Requests the undo of a call. */
  undo(call: string): void;
}

export const StepCard = memo(({ step, session, undo }: Props) => {
  const { outcome, decided } = step;
  const edit = useMemo(() => editOf(step.tool, step.arguments), [step.tool, step.arguments]);
  if (decided.state === "waiting" && !outcome) return <WaitingStep step={step} />;
  const failed = outcome && !["ok", "rejected", "cancelled"].includes(outcome.status);
  const tone =
    decided.state === "rejected" || outcome?.status === "rejected" ? "refused" : failed ? "failed" : "";
  return (
    <article
      className={`card step ${step.cardKind} ${tone}`}
      aria-label={`Step: ${neutralizeLine(step.tool)}`}
    >
      {step.reason && <p className="why">{neutralize(step.reason)}</p>}
      <div className="line">
        <span className="sign" aria-hidden="true">
          {step.cardKind === "send_keys" ? "⌨" : step.cardKind === "command" ? ">" : "⚙"}
        </span>
        <code className="what">
          <CommandText text={step.command} />
        </code>
        <CopyButton text={step.command} />
      </div>
      {step.editedFrom !== undefined && (
        <p className="meta">
          edited; proposed was <code>{neutralizeLine(step.editedFrom)}</code>
        </p>
      )}
      {edit && <FileDiff edit={edit} />}
      {!(edit && outcome?.status === "ok") && <Output step={step} />}
      <StatusLine step={step} session={session} />
      <Changed step={step} undo={undo} />
    </article>
  );
});

/** A pending call is shown in full only in its approval card. */
function WaitingStep({ step }: { step: Step }) {
  return (
    <article className="card step waiting" aria-label={`Step: ${neutralizeLine(step.tool)}`}>
      <span className="badge waiting">needs approval</span> <code>{neutralizeLine(step.tool)}</code>
    </article>
  );
}

function Output({ step }: { step: Step }) {
  const [all, setAll] = useState(false);
  const { outcome } = step;
  const raw = outcome ? withoutExitCode(outcome) : step.tail;
  if (!raw.trim()) return null;
  const cut = !all && raw.length > SHOWN_CHARS_MAX;
  const shown = plainOutput(cut ? raw.slice(-SHOWN_CHARS_MAX) : raw).replace(/\n+$/, "");
  return (
    <>
      {cut && (
        <button type="button" className="more" onClick={() => setAll(true)}>
          Show {raw.length - SHOWN_CHARS_MAX} earlier characters
        </button>
      )}
      {step.skipped > 0 && <p className="meta">{step.skipped} earlier characters not shown</p>}
      <pre className="output" tabIndex={0} role="group" aria-label="Output" ref={outcome ? undefined : toEnd}>
        <SafeText text={shown} />
      </pre>
    </>
  );
}

/** Changes of a call, and the button that undoes them. */
function Changed({ step, undo }: { step: Step; undo(call: string): void }) {
  const { outcome } = step;
  const line = outcome ? changedLine(outcome.changed, outcome.undo, outcome.hosts) : "";
  if (!line) return null;
  const undoable = outcome?.undo === "exact" || outcome?.undo === "partly";
  return (
    <footer className="status">
      <span>{line}</span>
      {undoable && (
        <button type="button" className="small" onClick={() => undo(step.call)}>
          Undo
        </button>
      )}
    </footer>
  );
}

/** Removes the exit code line, which is for the model; users see the exit code below the output. */
function withoutExitCode({ output, exitCode }: Outcome): string {
  const told = `[exit code ${exitCode}]`;
  const text = output.trimEnd();
  return text.endsWith(told) ? text.slice(0, -told.length) : output;
}

/** Scrolls to the end of growing output. */
function toEnd(element: HTMLPreElement | null): void {
  if (element) element.scrollTop = element.scrollHeight;
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
  const status = outcome?.status ?? (step.started ? "running" : "");
  return (
    <footer className="status">
      {outcome && outcome.status !== "rejected" && (
        <span className={`badge ${outcome.status}`}>
          <span aria-hidden="true">{statusSign(outcome.status)}</span> {statusLabel(outcome.status)}
          {outcome.exitCode !== undefined && `, exit code ${outcome.exitCode}`}
        </span>
      )}
      {!outcome && status && (
        <span className={`badge ${status}`}>
          <span className="spinner" aria-hidden="true" />
          {status}
        </span>
      )}
      {outcome && outcome.status !== "rejected" && outcome.status !== "unknown" && (
        <span>{duration(outcome.durationMs)}</span>
      )}
      {outcome?.truncated && <span>truncated for the model</span>}
      {outcome?.artefact && (
        <a
          href={artifactPath(session, outcome.artefact)}
          download={`${neutralizeLine(outcome.artefact)}.txt`}
        >
          full output
        </a>
      )}
      {outcome?.changed.length === 0 &&
        outcome.changes.map(({ path }) => <span key={path}>changed {neutralizeLine(path)}</span>)}
      {outcome &&
        hostGroups(outcome.hosts).map(({ text, status: how }) => (
          <span key={text}>
            {statusSign(how)} {text}
          </span>
        ))}
      {said.map((text) => (
        <span key={text}>{text}</span>
      ))}
    </footer>
  );
}
