/** The conversation: a virtualized list, pending approvals and prompts, and the composer. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useLatest, useNow, useSessionView } from "../app/hooks";
import { Icon } from "../app/icons";
import { isOrAre, MeContext, useName } from "../app/me";
import { listSkills } from "../protocol/api";
import { completions } from "../state/commands";
import type { Step } from "../state/item";
import { proposedSteps } from "../state/proposed-steps";
import type { SessionStore, SessionView } from "../state/session-store";
import { pendingApproval, type Transcript } from "../state/transcript";
import { elapsed, hostLabel, progressLabel } from "../text/labels";
import { type CommandActions, Commands } from "../text/Markdown";
import { neutralize, neutralizeLine, oneLine } from "../text/neutralize";
import type { Skill } from "../wire";
import { Announcer } from "./Announcer";
import { ApprovalCard } from "./ApprovalCard";
import { CommandText } from "./CommandText";
import { Composer, type ComposerHandle } from "./Composer";
import { Jobs } from "./Jobs";
import { PlanCard } from "./PlanCard";
import { QuestionCard } from "./QuestionCard";
import { RowView } from "./RowView";
import { type Row, rowsOf } from "./rows";
import { modelName, Toolbar } from "./Toolbar";
import { UploadDialog, useFileDrop } from "./Upload";

/** Maximum distance from the end at which the list keeps following it, in pixels. */
const NEAR_PX = 48;
/** Height assumed for a row until it is measured, in pixels. */
const ESTIMATE_PX = 96;

/** Elements that keep the focus when a session is opened, because the user writes in them. */
const WRITING = "textarea, .terminal-side *, dialog *";

interface Props {
  store: SessionStore;
  commands: CommandActions;
  /** True if the user just opened the session: the prompt, or what waits for an answer, takes the focus. */
  takesFocus: boolean;
  /** Called when the focus was taken. */
  focused(): void;
}

export function Conversation({ store, commands, takesFocus, focused }: Props) {
  const view = useSessionView(store);
  const { transcript, status, mode, caughtUp } = view;
  const composer = useRef<ComposerHandle>(null);
  const section = useRef<HTMLElement>(null);
  const rows = useMemo(() => (view.caughtUp ? rowsOf(view) : []), [view]);
  const online = status.state === "open";
  const running = transcript.phase !== "idle";
  const step = pendingApproval(transcript);
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
  const taken = useLatest(focused);
  useEffect(() => {
    if (!takesFocus) return;
    taken.current();
    if (document.activeElement?.matches(WRITING)) return;
    // A proposal that arrives later takes the focus from an empty prompt by itself.
    const waiting = section.current?.querySelector<HTMLElement>(".question .field, .review");
    if (waiting) waiting.focus();
    else toComposer();
  }, [takesFocus, taken, toComposer]);
  const name = modelName(transcript.facts?.model ?? "");
  const me = useContext(MeContext);
  const watches = me !== undefined && !me.operate && !me.decide;
  const drop = useFileDrop(online && me?.operate === true && me.decide && canUpload(transcript));
  return (
    <section
      ref={section}
      className={`conversation ${drop.over ? "dropping" : ""}`}
      aria-label="Conversation"
      {...drop.handlers}
    >
      <h2 className="visually-hidden">Conversation</h2>
      <fieldset className="bare" disabled={watches}>
        <Toolbar store={store} view={view} />
      </fieldset>
      <Commands value={commands}>
        <RowList
          store={store}
          rows={rows}
          caughtUp={caughtUp}
          sends={view.sends}
          empty={<Empty view={view} example={watches ? undefined : (text) => store.appendToDraft(text)} />}
        />
      </Commands>
      <div className="dock">
        <ActivityLine store={store} view={view} name={name} online={online} />
        <ErrorNotices store={store} view={view} />
        {watches && <Watching step={step} />}
        {!watches &&
          transcript.questions.map((question) => (
            <QuestionCard key={question.id} store={store} question={question} online={online} />
          ))}
        {step && !watches && (
          <ApprovalCard
            key={step.call}
            store={store}
            step={step}
            host={transcript.facts?.host ?? ""}
            online={online}
            sent={view.answered.has(step.call)}
            leave={toComposer}
          />
        )}
        {plan.length > 0 && !watches && <PlanCard store={store} steps={plan} online={online} />}
        <Jobs store={store} jobs={transcript.jobs} online={online && !watches} />
        {!watches && (
          <Composer
            ref={composer}
            store={store}
            prompt={mode === "agent" ? "agent:/>" : `${name}:/>`}
            placeholder={mode === "agent" ? "Describe a task…" : `Ask ${name}…`}
            pending={view.pending}
            queued={transcript.queued}
            online={online}
            running={running}
            history={history}
            complete={(text) => completions(text, skills)}
            buffer={commands.buffer}
          />
        )}
      </div>
      {drop.file && <UploadDialog store={store} file={drop.file} close={drop.done} />}
      <Announcer view={view} />
    </section>
  );
}

/** Returns the skills of a session. The log contains them from the first turn on; before that, the server is asked. */
function useSkills(store: SessionStore, { transcript, caughtUp }: SessionView): readonly Skill[] {
  const [found, setFound] = useState<readonly Skill[]>([]);
  const unknown = caughtUp && transcript.turn === 0;
  useEffect(() => {
    if (!unknown) return;
    let current = true;
    listSkills(store.id).then(
      (skills) => current && setFound(skills),
      () => {}, // the names are then completed from the first turn on
    );
    return () => {
      current = false;
    };
  }, [store, unknown]);
  return transcript.skills.length > 0 ? transcript.skills : found;
}

/** Shown to read-only users instead of an approval or a prompt. */
function Watching({ step }: { step: Step | undefined }) {
  return (
    <div className="readonly">
      {step && (
        <pre className="what" tabIndex={0} role="group" aria-label="Awaiting approval">
          <CommandText text={step.proposal} findings={step.findings} />
        </pre>
      )}
      <p>
        {step
          ? "Only someone with more permissions can approve this command."
          : "Read-only: you can watch, but not write or approve."}
      </p>
    </div>
  );
}

/** Returns true if uploads can be written unchanged to the session's host. */
function canUpload({ facts }: Transcript): boolean {
  return facts?.tools.some(({ name }) => name === "write_file") ?? false;
}

/** Current activity, in one line. */
function ActivityLine(props: { store: SessionStore; view: SessionView; name: string; online: boolean }) {
  const { store, view, name, online } = props;
  const { transcript, stopping, begun } = view;
  const nameOf = useName();
  const { phase, holder, stepOpen, progress } = transcript;
  const runs = transcript.items.findLast((item) => item.kind === "step" && item.started && !item.outcome);
  const since = runs?.kind === "step" && phase === "running" ? begun.get(runs.call) : undefined;
  const lines: { text: string; tone: string }[] = [];
  if (phase === "paused" && runs) lines.push({ text: "Pausing after this command…", tone: "busy" });
  else if (phase === "paused" && stepOpen) lines.push({ text: "Pausing after this step…", tone: "busy" });
  else if (phase === "paused")
    lines.push({ text: "Agent paused. Click Resume to continue.", tone: "paused" });
  else if (stopping || phase === "stopping") lines.push({ text: "Stopping…", tone: "busy" });
  else if (phase === "running") {
    const what = runs?.kind === "step" ? neutralizeLine(runs.command).slice(0, 80) : "a command";
    lines.push({ text: `running ${what}`, tone: "busy" });
  } else if (phase === "thinking" && stepOpen) {
    const told = progress ? progressLabel(progress) : "";
    lines.push({ text: told ? `${name}: ${told}` : `waiting for ${name}`, tone: "busy" });
  }
  const reads = phase === "thinking" && progress?.received === 0 ? progress.prompt : undefined;
  if (holder !== undefined) {
    lines.push({ text: `${isOrAre(nameOf(holder))} using the terminal; agent paused`, tone: "held" });
  }
  return lines.map(({ text, tone }) => (
    <p key={tone} className={`live ${tone}`}>
      {tone === "busy" && <span className="spinner" aria-hidden="true" />}
      <span>{text}</span>
      {tone === "busy" && since !== undefined && <Elapsed since={since} />}
      {tone === "busy" && reads && (
        <progress value={reads.done} max={reads.total} aria-label="Prompt tokens read" />
      )}
      {tone === "busy" && phase === "running" && runs?.kind === "step" && runs.tool === "bash" && (
        <button type="button" className="small" disabled={!online} onClick={() => store.moveToBackground()}>
          Run in background
        </button>
      )}
    </p>
  ));
}

/** Time since a command began. A timer is not read aloud by itself. */
function Elapsed({ since }: { since: number }) {
  const now = useNow(true);
  return (
    <span className="elapsed" role="timer" aria-label="Time elapsed">
      · {elapsed(now - since)}
    </span>
  );
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

/** Examples of a first prompt. */
const EXAMPLES = ["How full is the disk?", "Which services have failed?", "What uses the most memory?"];

function Empty({ view, example }: { view: SessionView; example: ((text: string) => void) | undefined }) {
  const { transcript, mode, caughtUp, status } = view;
  if (!caughtUp) {
    return <p className="empty">{status.state === "offline" ? "Not connected" : "Opening the session…"}</p>;
  }
  const { facts } = transcript;
  if (!example) return <p className="empty">No messages in this session yet.</p>;
  return (
    <div className="empty">
      <h3>{mode === "agent" ? "Describe a task." : "Ask a question."}</h3>
      {facts && (
        <p className="meta">
          {mode === "agent" ? "The agent works" : "The terminal is"} on <b>{hostLabel(facts.host)}</b> in{" "}
          <code>{oneLine(facts.root)}</code>. <code>!uptime</code> runs a command without a model.
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

const estimate = () => ESTIMATE_PX;
const never = () => false;

interface RowListProps {
  store: SessionStore;
  rows: Row[];
  caughtUp: boolean;
  /** Number of prompts sent from here; each scrolls to the end. */
  sends: number;
  empty: React.ReactNode;
}

/** The list of rows. The list follows its end until the user scrolls up, and again from the user's next prompt on. */
function RowList({ store, rows, caughtUp, sends, empty }: RowListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [away, setAway] = useState(false);
  const [unread, setUnread] = useState(0);
  const seen = useRef(rows.length);
  // A new function makes the list measure all rows again, so this one changes only when the rows do.
  const latestRows = useLatest(rows);
  // biome-ignore lint/correctness/useExhaustiveDependencies: these change when rows are added or removed
  const keyOf = useCallback(
    (at: number) => latestRows.current[at]?.id ?? at,
    [rows.length, rows[0]?.id, rows.at(-1)?.id],
  );
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: estimate,
    getItemKey: keyOf,
    overscan: 8,
  });
  // Measuring rows above must not move the visible text; while the list follows its end, the end stays in place.
  const settle = () => {
    virtual.shouldAdjustScrollPositionOnItemSizeChange = follows.current ? never : undefined;
  };
  settle();
  const total = virtual.getTotalSize();
  // The rows are in normal flow between two spacers, so that a row that grows cannot cover the next one.
  const drawn = virtual.getVirtualItems();
  const showAll = useCallback(() => store.showAll(), [store]);
  const undo = useCallback((call: string) => store.undoStep(call), [store]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: whatever makes the list longer moves its end
  useLayoutEffect(() => {
    const { current } = scroller;
    if (current && follows.current) current.scrollTop = current.scrollHeight;
  }, [total, rows, caughtUp]);

  // The dock below grows and shrinks, and a hidden tab has no size.
  useEffect(() => {
    const { current } = scroller;
    if (!current) return;
    const observer = new ResizeObserver(() => {
      if (follows.current) current.scrollTop = current.scrollHeight;
    });
    observer.observe(current);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (follows.current) seen.current = rows.length;
    else setUnread(Math.max(0, rows.length - seen.current));
  }, [rows.length]);

  const sent = useRef(sends);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a prompt jumps, not a new function
  useLayoutEffect(() => {
    if (sent.current !== sends) jump();
    sent.current = sends;
  }, [sends]);

  const last = useRef({ top: 0, height: 0 });
  /** Time until which scrolling counts as the user's, because measuring rows also scrolls the list. */
  const ownUntil = useRef(0);
  const own = (ms: number) => () => {
    ownUntil.current = performance.now() + ms;
  };
  const scrolled = () => {
    const { current } = scroller;
    if (!current) return;
    const { scrollTop, scrollHeight, clientHeight } = current;
    const gap = scrollHeight - scrollTop - clientHeight;
    const { top, height } = last.current;
    last.current = { top: scrollTop, height: scrollHeight };
    if (gap < NEAR_PX) follows.current = true;
    else if (scrollTop < top && (height === scrollHeight || performance.now() < ownUntil.current)) {
      follows.current = false;
    }
    settle();
    if (follows.current) {
      seen.current = rows.length;
      setUnread(0);
    }
    setAway(!follows.current);
  };
  const jump = () => {
    follows.current = true;
    settle();
    setAway(false);
    setUnread(0);
    const { current } = scroller;
    if (current) current.scrollTop = current.scrollHeight;
  };

  return (
    <div className="list">
      <section
        className="scroller"
        ref={scroller}
        onScroll={scrolled}
        onWheel={own(500)}
        onTouchMove={own(3_000)}
        onKeyDown={own(1_000)}
        onPointerDown={own(15_000)}
        tabIndex={0}
        aria-label="Messages"
      >
        <div style={{ paddingTop: drawn[0]?.start ?? 0, paddingBottom: total - (drawn.at(-1)?.end ?? 0) }}>
          {drawn.map(({ index, key }) => {
            const row = rows[index];
            return (
              row && (
                <div key={key} data-index={index} ref={virtual.measureElement} className="row">
                  <RowView row={row} session={store.id} showAll={showAll} undo={undo} />
                </div>
              )
            );
          })}
        </div>
        {rows.every(({ kind }) => kind === "earlier") && empty}
      </section>
      {away && (
        <button type="button" className="jump" onClick={jump}>
          <Icon name="down" /> Jump to latest{unread > 0 && ` (${unread} new)`}
        </button>
      )}
    </div>
  );
}
