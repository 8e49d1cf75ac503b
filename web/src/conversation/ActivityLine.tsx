/** What the session does now: the model, a command, a pause, a user at the terminal. */
import { useNow } from "../app/hooks";
import { isOrAre, useName } from "../app/me";
import { endsByMessage, runningCall } from "../state/paused-turn";
import type { SessionStore, SessionView } from "../state/session-store";
import { pendingApproval } from "../state/transcript";
import { elapsed, progressLabel } from "../text/labels";
import { neutralize } from "../text/neutralize";

/** Current activity, in one line. */
export function ActivityLine(props: {
  store: SessionStore;
  view: SessionView;
  name: string;
  online: boolean;
  tellsHolder: boolean;
  /** Called when the user has moved the command to the background: the button goes. */
  moved(): void;
}) {
  const { store, view, name, online, tellsHolder, moved } = props;
  const { transcript, stopping, begun, asked } = view;
  const nameOf = useName();
  const { phase, holder, stepOpen, progress } = transcript;
  const runs = runningCall(transcript);
  let since = runs && phase === "running" ? begun.get(runs.call) : undefined;
  const lines: { text: string; tone: string }[] = [];
  if (phase === "paused" && runs) lines.push({ text: "Pausing after this command…", tone: "busy" });
  else if (phase === "paused" && stepOpen) lines.push({ text: "Pausing after this step…", tone: "busy" });
  else if (phase === "paused") {
    const one = pendingApproval(transcript) ? " Allowing the step below runs only that step." : "";
    const ends = endsByMessage(transcript) ? " A message ends the paused turn." : "";
    lines.push({ text: `Agent paused.${one} Click Resume to continue.${ends}`, tone: "paused" });
  } else if (stopping || phase === "stopping") lines.push({ text: "Stopping…", tone: "busy" });
  else if (phase === "running") {
    const what = runs ? commandLine(runs.command).slice(0, 80) : "a command";
    lines.push({ text: `running ${what}`, tone: "busy" });
  } else if (phase === "thinking" && stepOpen) {
    const told = progress ? progressLabel(progress) : "";
    lines.push({ text: told ? `${name}: ${told}` : `waiting for ${name}`, tone: "busy" });
    since = asked;
  }
  const reads = phase === "thinking" && progress?.received === 0 ? progress.prompt : undefined;
  if (holder !== undefined && tellsHolder) {
    lines.push({ text: `${isOrAre(nameOf(holder))} using the terminal; agent paused`, tone: "held" });
  }
  return lines.map(({ text, tone }) => (
    <p key={tone} className={`live ${tone}`}>
      {tone === "busy" && online && <span className="spinner" aria-hidden="true" />}
      <span>{tone === "busy" && !online ? `last known: ${text}` : text}</span>
      {tone === "busy" && since !== undefined && <Elapsed since={since} ticks={online} />}
      {tone === "busy" && reads && (
        <progress value={reads.done} max={reads.total} aria-label="Prompt tokens read" />
      )}
      {tone === "busy" && phase === "running" && runs?.tool === "bash" && (
        <button
          type="button"
          className="small"
          disabled={!online}
          onClick={() => {
            store.moveToBackground();
            moved();
          }}
        >
          Run in background
        </button>
      )}
    </p>
  ));
}

/** A command in one line, with the same characters as on its card. */
function commandLine(command: string): string {
  return neutralize(command).replace(/\s+/g, " ").trim();
}

/** Time since a command or a model call began. A timer is not read aloud by itself. */
function Elapsed({ since, ticks }: { since: number; ticks: boolean }) {
  const now = useNow(ticks);
  return (
    <span className="elapsed" role="timer" aria-label="Time elapsed">
      · {elapsed(now - since)}
    </span>
  );
}
