/** Steps that the agent proposed in a read-only session, to be run one by one. */
import { useState } from "react";
import { Icon } from "../app/icons";
import type { Step } from "../state/item";
import type { SessionStore } from "../state/session-store";
import { oneLine } from "../text/neutralize";
import { useSettled } from "./settled";

interface Props {
  store: SessionStore;
  steps: readonly Step[];
  online: boolean;
}

/** Only the next step can run, because later ones may depend on it. The current approval mode judges each step. */
export function PlanCard({ store, steps, online }: Props) {
  const last = steps.at(-1)?.call;
  const [putAway, setPutAway] = useState<string>();
  const [sent, setSent] = useState<string>();
  const settled = useSettled(steps[0]?.call ?? "");
  if (last === undefined || putAway === last) return null;
  return (
    <section className="plan" aria-label="Proposed steps">
      <header>
        <strong>Proposed steps</strong>
        <span className="meta">The current approval mode applies to each step.</span>
        <button type="button" aria-label="Dismiss steps" onClick={() => setPutAway(last)}>
          <Icon name="close" />
        </button>
      </header>
      <ol>
        {steps.map((step, at) => (
          <li key={step.call}>
            <code>{oneLine(step.command)}</code>
            <button
              type="button"
              disabled={!online || at > 0 || sent === step.call || !settled}
              title={at > 0 ? "Run the steps above first" : undefined}
              onClick={() => {
                setSent(step.call);
                store.runStep(step);
              }}
            >
              Run
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}
