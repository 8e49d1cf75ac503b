/** Shown to read-only users instead of an approval or a prompt. */
import type { Step } from "../state/item";
import { riskLabel } from "../text/labels";
import { neutralize } from "../text/neutralize";
import { CommandText } from "./CommandText";

export function Watching({ step }: { step: Step | undefined }) {
  return (
    <div className="readonly">
      {step && (
        <p>
          <span className={`risk ${step.risk ?? "changes"}`}>{riskLabel(step.risk ?? "changes")}</span>{" "}
          {step.reason && neutralize(step.reason)}
        </p>
      )}
      {step && (
        <pre className="what" tabIndex={0} role="group" aria-label="Awaiting approval">
          {step.cardKind === "tool" ? (
            <CommandText text={step.command} />
          ) : (
            <CommandText text={step.proposal} findings={step.findings} />
          )}
        </pre>
      )}
      <p>
        {step
          ? "You can watch, but not approve commands."
          : "Read-only: you can watch, but not write or approve."}
      </p>
    </div>
  );
}
