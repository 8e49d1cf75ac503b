/** Models that received tool output of a session; mirrors `OutputReaders` of sysop-core. */
import type { ModelRef, ServerMessage } from "../wire";

/** Maximum models to remember. */
const MODELS_MAX = 64;

export interface OutputReaders {
  /** In order of first use. */
  models: readonly ModelRef[];
  /** Model of the current step. */
  asked: ModelRef | undefined;
  /** True if the history contains tool output. */
  hasOutput: boolean;
}

export const noReaders: OutputReaders = { models: [], asked: undefined, hasOutput: false };

/** Processes a message; `model` is the current model. */
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

/** A model may have read the output even if its reply did not arrive. */
function sent(before: OutputReaders): OutputReaders {
  const { asked, models } = before;
  if (asked === undefined) return before;
  const known = models.includes(asked) || models.length >= MODELS_MAX;
  return { ...before, asked: undefined, models: known ? models : [...models, asked] };
}

/** Returns the distinct providers of these models, except the provider of the current model. */
export function otherProviders({ models }: OutputReaders, model: ModelRef): string[] {
  const provider = (name: ModelRef) => name.split("/", 1)[0] ?? "";
  return [...new Set(models.map(provider))].filter((name) => name !== provider(model));
}
