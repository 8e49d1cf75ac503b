/** The output of a call as its card shows it. Pure. */
import type { Outcome, Step } from "../state/item";
import { editOf } from "../text/file-edit";
import { RUNNING_NOTE, runningProgram } from "../text/running-program";
import type { Status } from "../wire";

/** Line in the result of a call that became a job. The status says the same. */
const JOB_NOTE = /^\[still running in the background as job \d+; see `jobs`\]$/m;
/** Note for the model about what a user typed in the terminal, which a notice tells the user; see sysop-host. */
const TYPED_NOTE = /^\[[^\n]*; the output is private unless they share it[^\n]*\]\n?/gm;
/** Beginning of the result of a call that a user rejected, which is for the model; see `REJECTED_BY_USER` in sysop-core. */
const REJECTED_BY_USER = "the user rejected this call";
/** The part of a refusal that tells the model what to do; see `ADVICE_TO_MODEL` in sysop-core. */
const ADVICE = /(?:\. The call was recorded as a step of your plan:|; do not try to work around it).*$/s;

/** Marks of what an output omits; see sysop-host. */
export const OMITTED = /^… \[([\d,]+) lines?, [\d,]+ bytes? omitted;/gm;

/** Returns true if the page has only parts of the output. */
export function omitsOutput(step: Step): boolean {
  if (!step.outcome) return step.skipped > 0 || step.missedOutput;
  return step.outcome.truncated || shownOutput(step).search(OMITTED) >= 0;
}

/** Returns the output without what is for the model. */
export function shownOutput(step: Step): string {
  const { outcome } = step;
  const whole = outcome ? withoutAdvice(withoutExitCode(endOf(step, outcome)), outcome.status) : step.tail;
  const own = step.tool === "undo" && outcome?.status === "ok" ? whole.replace(/^OK, /, "") : whole;
  const noted = outcome && runningProgram(outcome) ? own.replace(RUNNING_NOTE, "") : own;
  return (step.job ? noted.replace(JOB_NOTE, "") : noted).replace(TYPED_NOTE, "");
}

/** False for the output of a call that changed a file, whose diff says it, or that a user rejected, which the status says. */
export function showsOutput(step: Step): boolean {
  const isChange = step.outcome?.status === "ok" && editOf(step.tool, step.arguments) !== undefined;
  const isRejection = step.decided.state === "rejected" && shownOutput(step).startsWith(REJECTED_BY_USER);
  return !isChange && !isRejection;
}

/** The end of a command: that of its background job, if it became one that has ended with output or was read. */
function endOf({ job }: Step, outcome: Outcome): Pick<Outcome, "output" | "exitCode"> {
  if (job?.output) return { output: job.output, exitCode: job.exitCode };
  return job?.read && job.status === undefined ? { output: job.read.output, exitCode: undefined } : outcome;
}

/** Removes the exit code line, which is for the model; users see the exit code below the output. */
function withoutExitCode({ output, exitCode }: Pick<Outcome, "output" | "exitCode">): string {
  const told = `[exit code ${exitCode}]`;
  const text = output.trimEnd();
  return text.endsWith(told) ? text.slice(0, -told.length) : output;
}

function withoutAdvice(output: string, status: Status): string {
  return status === "rejected" ? output.replace(ADVICE, "") : output;
}
