/** The conversation: its messages, pending approvals and prompts, and the composer. */
import { useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useLatest, useMedia, useSessionView } from "../app/hooks";
import { Icon } from "../app/icons";
import { lazyPart, useLazyPart } from "../app/lazy-part";
import { MeContext } from "../app/me";
import { SessionFacts } from "../app/SessionFacts";
import { placeOf } from "../state/call-place";
import { endsByMessage } from "../state/paused-turn";
import { proposedSteps } from "../state/proposed-steps";
import type { SessionStore, SessionView } from "../state/session-store";
import { pendingApproval, type Transcript } from "../state/transcript";
import { type CommandActions, Commands } from "../text/command-actions";
import { neutralize } from "../text/neutralize";
import type { Mode, Skill } from "../wire";
import { Composer, type ComposerHandle, isYes } from "./Composer";
import { useFileDrop } from "./file-drop";
import { Online } from "./online";
import { rowsOf } from "./rows";
import { modelName, Toolbar } from "./Toolbar";
import { WRITING } from "./writing";

/** Loaded after the first frame of a session, while its messages are on their way. */
export const lazyParts = lazyPart(() => import("./parts"));

interface Props {
  store: SessionStore;
  commands: CommandActions;
  /** True if the user just opened the session: the prompt, or what waits for an answer, takes the focus. */
  takesFocus: boolean;
  /** True if the terminal is in view, which tells itself who uses it. */
  terminalShown: boolean;
  /** Called when the focus was taken. */
  focused(): void;
}

export function Conversation({ store, commands, takesFocus, terminalShown, focused }: Props) {
  const view = useSessionView(store);
  const { transcript, status, mode, caughtUp } = view;
  const composer = useRef<ComposerHandle>(null);
  const section = useRef<HTMLElement>(null);
  const [sought, setSought] = useState<{ jobId: number }>();
  const rows = useMemo(() => (view.caughtUp ? rowsOf(view) : []), [view]);
  const online = status.state === "open";
  const running = transcript.phase !== "idle";
  const step = pendingApproval(transcript);
  const hasTerminal = !transcript.facts?.host.includes(",");
  const readsOnly = transcript.facts?.approve === "never";
  const plan = useMemo(
    () => (readsOnly || running || !caughtUp ? [] : proposedSteps(transcript)),
    [transcript, readsOnly, running, caughtUp],
  );
  const skills = useSkills(store, view);
  const latest = useLatest(view);
  const history = useCallback(
    () => [
      ...new Set(
        latest.current.transcript.items.flatMap((item) => (item.kind === "prompt" ? [item.text] : [])),
      ),
    ],
    [latest],
  );
  const toComposer = useCallback(() => composer.current?.focus(), []);
  const toEmptyComposer = useCallback(() => composer.current?.focusIfEmpty(), []);
  const promptWriter = useMemo(
    () => ({
      write: (text: string) => composer.current?.write(text),
      insert: (text: string) => composer.current?.insert(text),
    }),
    [],
  );
  // On a touch screen, the focus would open the keyboard.
  const backToComposer = useCallback(() => {
    if (!matchMedia("(pointer: coarse)").matches) composer.current?.focus();
  }, []);
  const focusReview = () => section.current?.querySelector<HTMLElement>(".review")?.focus();
  const taken = useLatest(focused);
  // Before the next key, which is meant for the session.
  useLayoutEffect(() => {
    if (!takesFocus) return;
    taken.current();
    if (document.activeElement?.matches(WRITING)) return;
    // A proposal that arrives later takes the focus from an empty prompt by itself.
    const waits = matchMedia("(pointer: coarse)").matches ? ".review" : ".review, .question .field";
    const waiting = section.current?.querySelector<HTMLElement>(waits);
    if (waiting) waiting.focus();
    else backToComposer();
  }, [takesFocus, taken, backToComposer]);
  const name = modelName(transcript.facts?.model ?? "");
  const phone = useMedia(PHONE);
  const me = useContext(MeContext);
  const watches = me !== undefined && !me.operate && !me.decide;
  const drop = useFileDrop(watches ? undefined : (files) => composer.current?.addFiles(files));
  const mayUpload = online && me?.operate === true && me.decide && canUpload(transcript);
  const [file, setFile] = useState<File>();
  const upload = (wanted: File) => {
    if (step) return "Answer the proposal first.";
    setFile(wanted);
    return undefined;
  };
  const wanted =
    watches ||
    transcript.items.length > 0 ||
    transcript.questions.length > 0 ||
    transcript.holder !== undefined ||
    file !== undefined;
  useEffect(() => lazyParts.preload(), []);
  const parts = useLazyPart(lazyParts, wanted);
  const empty = (
    <Empty
      view={view}
      opening={!caughtUp || (!parts && rows.length > 0)}
      example={watches ? undefined : (text) => store.appendToDraft(text)}
    />
  );
  return (
    <section
      ref={section}
      className={`conversation ${drop.over ? "dropping" : ""}`}
      aria-label="Conversation"
      {...drop.handlers}
    >
      <h2 className="visually-hidden">Conversation</h2>
      <fieldset className="bare" disabled={watches}>
        <Toolbar store={store} view={view} done={backToComposer} />
      </fieldset>
      <Commands value={hasTerminal ? commands : undefined}>
        {parts ? (
          <Online value={online}>
            <parts.RowList
              store={store}
              rows={rows}
              sends={view.sends}
              empty={empty}
              undone={backToComposer}
              sought={sought}
            />
          </Online>
        ) : (
          <div className="list">
            <section className="scroller" tabIndex={0} aria-label="Messages">
              {empty}
            </section>
          </div>
        )}
      </Commands>
      <div className="dock">
        {parts && (
          <parts.ActivityLine
            store={store}
            view={view}
            name={name}
            online={online}
            tellsHolder={!terminalShown}
            moved={backToComposer}
          />
        )}
        <ErrorNotices store={store} view={view} />
        {parts && watches && <parts.Watching step={step} />}
        {parts &&
          !watches &&
          transcript.questions.map((question) => (
            <parts.QuestionCard key={question.id} store={store} question={question} online={online} />
          ))}
        {parts && step && !watches && (
          <parts.ApprovalCard
            key={step.call}
            store={store}
            step={step}
            host={transcript.facts?.host ?? ""}
            online={online}
            sent={view.answered.has(step.call)}
            place={placeOf(transcript, step.call)}
            leave={toComposer}
            done={toEmptyComposer}
            prompt={promptWriter}
          />
        )}
        {parts && plan.length > 0 && !watches && (
          <parts.PlanCard store={store} steps={plan} online={online} />
        )}
        {parts && showsTasks(transcript) && (
          <parts.TaskList
            key={isOfThisTurn(transcript) ? "this turn" : "earlier"}
            tasks={transcript.tasks}
            ofThisTurn={isOfThisTurn(transcript)}
            waits={step !== undefined || transcript.questions.length > 0 || plan.length > 0}
          />
        )}
        {parts && (
          <parts.Jobs
            store={store}
            jobs={transcript.jobs}
            online={online && !watches}
            phase={transcript.phase}
            show={(jobId) => setSought({ jobId })}
            stopped={backToComposer}
          />
        )}
        {!watches && (
          <Composer
            ref={composer}
            store={store}
            prompt={mode === "agent" ? "agent:/>" : `${name}:/>`}
            placeholder={placeholderOf(mode, name, phone)}
            pending={view.pending}
            typed={view.typed}
            queued={transcript.queued}
            ownQueued={view.ownQueued}
            online={online}
            running={running}
            endsTurn={endsByMessage(transcript)}
            proposal={
              step && online && me?.decide !== false && !view.answered.has(step.call)
                ? {
                    call: step.call,
                    reject: (message) =>
                      isYes(message) ? focusReview() : store.rejectWith(step, message, me?.name),
                  }
                : undefined
            }
            upload={mayUpload ? upload : undefined}
            history={history}
            complete={(text) => parts?.completions(text, skills) ?? []}
            buffer={hasTerminal ? commands.buffer : undefined}
          />
        )}
      </div>
      {parts && file && <parts.UploadDialog store={store} file={file} close={() => setFile(undefined)} />}
      {parts && <parts.Announcer view={view} />}
    </section>
  );
}

function placeholderOf(mode: Mode, model: string, phone: boolean): string {
  if (mode === "agent") return phone ? "Task…" : "Describe a task…";
  return phone ? "Ask…" : `Ask ${model}…`;
}

/** Returns the skills of a session. The log contains them from the first turn on; before that, the server is asked. */
function useSkills(store: SessionStore, { transcript, caughtUp }: SessionView): readonly Skill[] {
  const [found, setFound] = useState<readonly Skill[]>([]);
  const unknown = caughtUp && transcript.turn === 0;
  useEffect(() => {
    if (!unknown) return;
    let current = true;
    store.fetchSkills().then(
      (skills) => current && setFound(skills),
      () => {}, // the names are then completed from the first turn on
    );
    return () => {
      current = false;
    };
  }, [store, unknown]);
  return transcript.skills.length > 0 ? transcript.skills : found;
}

/** Returns true if uploads can be written unchanged to the session's host. */
function canUpload({ facts }: Transcript): boolean {
  return facts?.tools.some(({ name }) => name === "write_file") ?? false;
}

/** Returns true if the task list was changed in the current turn, or in the last one if none runs. */
function isOfThisTurn({ tasksTurn, turn }: Transcript): boolean {
  return tasksTurn === turn;
}

/** Returns true while there is something to do; the transcript tells that the last task was done. */
export function showsTasks(transcript: Transcript): boolean {
  const { tasks, phase } = transcript;
  const runs = phase !== "idle" && isOfThisTurn(transcript);
  return tasks.length > 0 && (runs || tasks.some(({ state }) => state !== "done"));
}

function ErrorNotices({ store, view }: { store: SessionStore; view: SessionView }) {
  return view.troubles.map(({ id, what, why, hint }) => (
    <div key={id} className="trouble" role="alert">
      <div>
        <strong>{neutralize(what)}:</strong> {neutralize(why)}
        {hint && <p>{neutralize(hint)}</p>}
      </div>
      <button type="button" aria-label="Dismiss" onClick={() => store.dismissError(id)}>
        <Icon name="close" />
      </button>
    </div>
  ));
}

/** Windows whose prompt has no room for a longer placeholder. */
const PHONE = "(max-width: 400px)";
/** Examples of a first prompt. */
const EXAMPLES = ["How full is the disk?", "Which services have failed?", "What uses the most memory?"];

function sentence(phrase: string): string {
  return `${phrase.slice(0, 1).toUpperCase()}${phrase.slice(1)}.`;
}

interface EmptyProps {
  view: SessionView;
  /** True until the messages of the session, if any, can be shown. */
  opening: boolean;
  example: ((text: string) => void) | undefined;
}

function Empty({ view, opening, example }: EmptyProps) {
  const { transcript, mode, status } = view;
  if (status.final) return <p className="empty">{sentence(status.why)}</p>;
  if (opening) {
    return <p className="empty">{status.state === "offline" ? "Not connected" : "Opening the session…"}</p>;
  }
  const { facts } = transcript;
  if (!example) return <p className="empty">No messages in this session yet.</p>;
  return (
    <div className="empty">
      <h3>{mode === "agent" ? "Describe a task." : "Ask a question."}</h3>
      {facts && (
        <p className="meta">
          <SessionFacts facts={facts} agent={mode === "agent"} />
        </p>
      )}
      {mode === "agent" && (
        <div className="examples">
          {EXAMPLES.map((text) => (
            <button key={text} type="button" onClick={() => example(text)}>
              {text}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
