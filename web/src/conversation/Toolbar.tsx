/** Model, approval mode and controls of the turn (the toolbar of juni-cli). */
import { useEffect, useRef, useState } from "react";
import { useNow } from "../app/hooks";
import { Icon } from "../app/icons";
import { useMachine } from "../app/me";
import { ServerSelect } from "../app/ServerSelect";
import { listModels } from "../protocol/api";
import { otherProviders } from "../state/output-readers";
import type { SessionStore, SessionView } from "../state/session-store";
import { boundsLabel, hostLabel, shortHostLabel, usage } from "../text/labels";
import { neutralizeLine } from "../text/neutralize";
import type { ApprovalMode, AutoLeft, Mode } from "../wire";

const MODES: [ApprovalMode, string, string][] = [
  ["each", "each", "Ask before every command"],
  ["ask", "ask", "Run read-only commands, ask before everything else"],
  [
    "auto",
    "auto",
    "Run commands that make changes; ask before dangerous ones and code that cannot be checked",
  ],
  ["never", "never (read-only)", "Run read-only commands only"],
];

/**
 * Time after the end of a turn in which a click on New chat, which takes the place of Stop, does nothing, because it was
 * meant for Stop.
 */
export const SETTLES_MS = 1_500;

interface Props {
  store: SessionStore;
  view: SessionView;
  /** Gives the focus to the prompt, because the button that had it goes. */
  done(): void;
}

export function Toolbar({ store, view, done }: Props) {
  const { transcript, stopping, mode } = view;
  const { facts, phase, lastPrompt } = transcript;
  const online = view.status.state === "open";
  const running = phase !== "idle";
  const paused = phase === "paused";
  const wasRunning = useRef(running);
  const ended = useRef(Number.NEGATIVE_INFINITY);
  if (wasRunning.current && !running) ended.current = performance.now();
  wasRunning.current = running;
  const settles = performance.now() - ended.current < SETTLES_MS ? "settles" : "";
  const ends = stopping || phase === "stopping";
  const tokens = usage(transcript.usage);
  const act = (does: () => void) => {
    does();
    done();
  };
  const others = facts ? otherProviders(transcript.readers, facts.model) : [];
  return (
    <div className="toolbar" role="toolbar" aria-label="Turn">
      <div className="who">
        <AgentToggle store={store} mode={mode} running={running} disabled={!online} />
        <HostName host={facts?.host} />
        <ModelPicker store={store} model={facts?.model ?? ""} disabled={!online || !facts} />
        {facts && (
          <label
            className={`approve ${facts.approve}`}
            title={MODES.find(([word]) => word === facts.approve)?.[2]}
          >
            <span aria-hidden="true">Approval</span>
            <span className="visually-hidden">Approval mode</span>
            <ServerSelect
              value={facts.approve}
              disabled={!online}
              choose={(mode) => store.configure({ approve: mode as ApprovalMode })}
            >
              {MODES.map(([word, name, means]) => (
                <option key={word} value={word} title={means}>
                  {name}
                </option>
              ))}
            </ServerSelect>
          </label>
        )}
        {facts?.auto && facts.approve === "auto" && <Bounds left={facts.auto} />}
        {running && transcript.maxIterations > 0 && transcript.iteration > 0 && (
          <span className="count" title="Model calls in this turn, and the limit">
            step {transcript.iteration} of {transcript.maxIterations}
          </span>
        )}
        {others.length > 0 && (
          <span className="readers" title="Other providers that received tool output">
            output also seen by {neutralizeLine(others.join(", "))}
          </span>
        )}
        {tokens && !running && (
          <span className="tokens" title="Tokens sent and received in this session">
            tokens: {tokens}
          </span>
        )}
      </div>
      <div className="acts">
        {running && !paused && !ends && (
          <button type="button" className="act pause" disabled={!online} onClick={() => store.pause()}>
            <Icon name="pause" /> <span className="word">Pause</span>
          </button>
        )}
        {paused && !ends && (
          <button
            type="button"
            className="act resume glows moves"
            disabled={!online}
            onClick={() => store.resume()}
          >
            <Icon name="resume" /> <span className="word">Resume</span>
          </button>
        )}
        {running && (
          <button
            type="button"
            className="act stop"
            disabled={ends || !online}
            onClick={() => act(() => store.stop())}
          >
            {ends ? (
              <>{online && <span className="spinner" aria-hidden="true" />} Stopping…</>
            ) : (
              <>
                <Icon name="stop" /> <span className="word">Stop</span>
              </>
            )}
          </button>
        )}
        {!running && lastPrompt !== undefined && (
          <button
            type="button"
            className="act retry"
            title="Send the last prompt again, without the history of the session"
            disabled={!online}
            onClick={() => act(() => store.retry())}
          >
            <Icon name="retry" /> <span className="word">Retry</span>{" "}
            <span className="more-words">without history</span>
          </button>
        )}
        {!running && (
          <button
            type="button"
            className={`act new ${settles}`}
            title="New chat in this session"
            disabled={!online}
            onClick={() => {
              if (performance.now() - ended.current >= SETTLES_MS) act(() => store.newChat());
            }}
          >
            <Icon name="newChat" /> <span className="word">New chat</span>
          </button>
        )}
        <button
          type="button"
          className="icon erase"
          title="Hide messages in this tab"
          aria-label="Hide messages in this tab"
          onClick={() => store.clearView()}
        >
          <Icon name="erase" />
        </button>
      </div>
    </div>
  );
}

/** Names the machine on which tools run, unless it is the server's own. */
function HostName({ host }: { host: string | undefined }) {
  const machine = useMachine();
  if (!host || host === "local") return null;
  return (
    <span className="on-host" title={`Tools run on ${hostLabel(host, machine)}`}>
      <span>on </span>
      <strong>{shortHostLabel(host, machine)}</strong>
    </span>
  );
}

/** Remaining bounds of `auto` mode; once any of them is reached, the mode becomes `ask`. */
function Bounds({ left }: { left: AutoLeft }) {
  const now = useNow(left.until !== undefined);
  return (
    <span
      className="bounds"
      role="timer"
      title="Commands run without asking until one of these limits is reached"
    >
      {boundsLabel(left, now)}
    </span>
  );
}

/** Names the mode, and switches between agent and chat (from juni-cli). It pulses while a turn may use tools. */
function AgentToggle(props: { store: SessionStore; mode: Mode; running: boolean; disabled: boolean }) {
  const { store, mode, running, disabled } = props;
  const on = mode === "agent";
  return (
    <button
      type="button"
      className={`agent-toggle ${on ? "on" : ""} ${on && running && !disabled ? "glows moves" : ""}`}
      aria-label={on ? "Agent mode" : "Chat mode"}
      disabled={disabled}
      title={
        on
          ? "Agent mode: the model can use tools. Click to switch to chat."
          : "Chat mode: no tools. Click to switch to agent mode."
      }
      onClick={() => store.setMode(on ? "chat" : "agent")}
    >
      <Icon name="bolt" /> <span className="word">{on ? "Agent" : "Chat"}</span>
    </button>
  );
}

/** Value of the option "other model"; no model has an empty provider. */
const OTHER = "/";

function ModelPicker({ store, model, disabled }: { store: SessionStore; model: string; disabled: boolean }) {
  const [models, setModels] = useState<readonly string[]>([]);
  const [typing, setTyping] = useState(false);
  useEffect(() => {
    let here = true;
    // Without the list, the current model is still shown, and another one can be typed.
    listModels().then(
      (known) => here && setModels(known),
      () => undefined,
    );
    return () => {
      here = false;
    };
  }, []);
  if (typing) {
    return (
      <input
        className="field model-name"
        aria-label="Other model, as PROVIDER/NAME"
        defaultValue={model}
        spellCheck="false"
        autoComplete="off"
        ref={focusAll}
        onBlur={() => setTyping(false)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" && event.key !== "Escape") return;
          event.preventDefault();
          const name = event.currentTarget.value.trim();
          if (event.key === "Enter" && name && name !== model) store.configure({ model: name });
          setTyping(false);
        }}
      />
    );
  }
  const choices = models.includes(model) || !model ? models : [model, ...models];
  const providers = new Set(choices.map(providerOf));
  return (
    <label className="model" title={`Model for the next step: ${neutralizeLine(model)}`}>
      <span className="visually-hidden">Model</span>
      <ServerSelect
        value={model}
        disabled={disabled}
        choose={(name) => {
          if (name === OTHER) setTyping(true);
          else store.configure({ model: name });
        }}
      >
        {[...providers].map((provider) => (
          // The closed list shows the name alone.
          <optgroup key={provider} label={neutralizeLine(provider)}>
            {choices
              .filter((name) => providerOf(name) === provider)
              .map((name) => (
                <option key={name} value={name}>
                  {modelName(name)}
                </option>
              ))}
          </optgroup>
        ))}
        <option value={OTHER}>other…</option>
      </ServerSelect>
    </label>
  );
}

/** Returns what precedes the name that `modelName` returns. */
function providerOf(model: string): string {
  return model.slice(0, Math.max(0, model.lastIndexOf("/")));
}

/** Focuses the field and selects its text. */
function focusAll(field: HTMLInputElement | null): void {
  field?.focus();
  field?.select();
}

/** Returns the model's name without its provider, for the prompt. */
export function modelName(model: string): string {
  const name =
    model
      .slice(model.indexOf("/") + 1)
      .split("/")
      .at(-1) ?? "";
  return neutralizeLine(name) || "model";
}
