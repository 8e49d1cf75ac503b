/** Tells what a session works on, with which model, and what the user answers. */
import { modelName } from "../conversation/Toolbar";
import type { ServerInfo } from "../protocol/api";
import { hostLabel } from "../text/labels";
import { oneLine } from "../text/neutralize";
import type { ApprovalMode } from "../wire";
import { useMachine } from "./me";

/** What the user answers, by approval mode. */
const APPROVALS: Record<ApprovalMode, string> = {
  each: "You approve, edit or reject each step.",
  ask: "Read-only steps run; you approve, edit or reject all others.",
  auto: "You approve, edit or reject each step that is dangerous or cannot be checked.",
  never: "Read-only: other steps are proposed, not run.",
};

interface Props {
  facts: Pick<ServerInfo, "host" | "root" | "model" | "approve">;
  agent: boolean;
}

export function SessionFacts({ facts: { host, root, model, approve }, agent }: Props) {
  const machine = useMachine();
  return (
    <>
      {agent ? "The agent works" : "The terminal is"} on <b>{hostLabel(host, machine)}</b> in{" "}
      <code>{oneLine(root)}</code>. The model is <b>{modelName(model)}</b>.{agent && ` ${APPROVALS[approve]}`}{" "}
      <code>!uptime</code> runs a command without a model.
    </>
  );
}
