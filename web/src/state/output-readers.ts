/** Which models were sent what a session's tools showed; as `OutputReaders` of sysop-core. */
import type { ModelRef, ServerMessage } from "../wire";

/** The most models that are remembered. */
const MODELS_MAX = 64;

export interface OutputReaders {
  /** In the order in which they first were. */
  models: readonly ModelRef[];
  /** That of the step that is under way. */
  asked: ModelRef | undefined;
  /** Whether the history holds what a tool showed. */
  hasOutput: boolean;
}

export const noReaders: OutputReaders = { models: [], asked: undefined, hasOutput: false };

/** Takes in one message; `model` is the one that is asked now. */
export function readOutput(
  before: OutputReaders,
  message: ServerMessage,
  model: ModelRef | undefined,
): OutputReaders {
  switch (message.type) {
    case "tool.finished":
      return { ...before, hasOutput: true };
    case "step.finished":
    case "assistant.done":
      return sent(before);
    case "step.failed":
      return message.kind === "withheld" || message.kind === "budget"
        ? { ...before, asked: undefined }
        : sent(before);
    case "state":
      if (message.historyCleared || message.event === "history_cleared")
        return { ...before, hasOutput: false };
      if (message.event === "step_started") return { ...before, asked: before.hasOutput ? model : undefined };
      return before;
    default:
      return before;
  }
}

/** A model that was asked may have read it, also where no answer came. */
function sent(before: OutputReaders): OutputReaders {
  const { asked, models } = before;
  if (asked === undefined) return before;
  const known = models.includes(asked) || models.length >= MODELS_MAX;
  return { ...before, asked: undefined, models: known ? models : [...models, asked] };
}

/** The providers of these models, each once, without that of the model that is asked now. */
export function otherProviders({ models }: OutputReaders, model: ModelRef): string[] {
  const provider = (name: ModelRef) => name.split("/", 1)[0] ?? "";
  return [...new Set(models.map(provider))].filter((name) => name !== provider(model));
}
