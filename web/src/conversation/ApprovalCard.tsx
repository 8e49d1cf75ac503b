/** Approval card: command, host, risk and answers; operable by keyboard. */
import {
  Fragment,
  type KeyboardEvent,
  type MouseEvent,
  useContext,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { useLatest, useMedia, useNow } from "../app/hooks";
import { Icon } from "../app/icons";
import { MeContext, useMachine, useName } from "../app/me";
import type { CallPlace } from "../state/call-place";
import type { Step } from "../state/item";
import { isUnreached, missedHosts } from "../state/missed-hosts";
import type { SessionStore } from "../state/session-store";
import * as storage from "../state/storage";
import { SafeText } from "../text/Code";
import { CodeSpans } from "../text/CodeSpans";
import { editOf, noteOf, showsArgument } from "../text/file-edit";
import {
  approvalWords,
  type CodePhrase,
  expiryLabel,
  hostLabel,
  originLabel,
  riskLabel,
  undoneHosts,
  undoneWhat,
} from "../text/labels";
import {
  confusableCharacters,
  neutralize,
  neutralizeLine,
  oneLine,
  stripInvisible,
} from "../text/neutralize";
import { type Overwrite, previewedLines, splitPreview } from "../text/overwrite";
import { covers, coversShown } from "../text/session-scope";
import type { Finding } from "../wire";
import { isShortcut, type PromptWriter, useLetters } from "./answer-keys";
import { CommandText, type FindingGroup, groupedFindings, isWorse } from "./CommandText";
import { EditField } from "./EditField";
import { DiffRows, FileDiff } from "./FileDiff";
import { isUnknown, previewLine } from "./preview-line";
import { EndBelow, ReadToEnd, scrollByKey } from "./ReadToEnd";
import { ENTER_AFTER_MS, isTap, TOUCH, useSecondTap, useSettled } from "./settled";
import { useOverwrite } from "./use-overwrite";

/** Pause in typing before an edited command is previewed. */
const PREVIEW_AFTER_MS = 500;
/** Time after which an unanswered request for a preview is repeated. */
const PREVIEW_AGAIN_MS = 12_000;
/** Matches windows in which the widest answer scrolls with the card, so that the others leave room to the command. */
const LOW = "(max-height: 700px)";
/** Maximum findings that the server lists; see `FINDINGS_MAX` in sysop-shell. */
const FINDINGS_MAX = 64;
/** Maximum parts that a group of findings names, and characters of each. */
const NAMED_PARTS_MAX = 3;
const NAMED_CHARS_MAX = 60;

type Stage = "ask" | "edit" | "reject" | "always";

interface Props {
  store: SessionStore;
  step: Step;
  host: string;
  online: boolean;
  /** True if this tab answered and the server has not yet confirmed. */
  sent: boolean;
  /** Place of the call among those of its reply, if the reply has several. */
  place?: CallPlace | undefined;
  /** Gives the focus to the prompt. */
  leave(): void;
  /** Gives the focus to the prompt unless it has a draft, which another Enter would send. */
  done(): void;
  prompt: PromptWriter;
}

export function ApprovalCard(props: Props) {
  const { store, step, host, online, sent, place, leave, done, prompt } = props;
  const card = useRef<HTMLElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const low = useMedia(LOW);
  const nameOf = useName();
  const viewer = useContext(MeContext)?.name;
  const editable = step.effect === "command";
  const [kept] = useState(() => (editable ? storage.editedCommand(store.id, step.call) : undefined));
  const [stage, setStage] = useState<Stage>(kept === undefined ? "ask" : "edit");
  const [text, setText] = useState(kept ?? "");
  const [reason, setReason] = useState("");
  /** Text of an edit that the user left, for the next one. */
  const leftEdit = useRef<string | undefined>(undefined);
  const since = useRef(Number.POSITIVE_INFINITY);
  const disabled = !online || sent;
  const isUndo = step.tool === "undo";
  const machine = useMachine();
  const where = hostLabel(isUndo ? undoneHosts(step.arguments, host) : host, machine);
  const { question, yes } = approvalWords(step, where);
  const note = noteOf(step.tool, step.arguments);
  const fileEdit = step.cardKind === "tool" ? editOf(step.tool, step.arguments) : undefined;
  const overwrite = useOverwrite(step);
  // A late preview changes the text, which must then be read again.
  const previewed = step.preview.join("\n");
  const whole = stripInvisible(step.proposal);
  const [end, setEnd] = useState<{ of: string; inView: boolean }>();
  /** Preview with which the end of the whole proposal has been in view. */
  const [readWith, setReadWith] = useState<string>();
  /** True if an edit hides nothing of the proposal that has not been read. */
  const readWhole = readWith === previewed;
  const [pages, setPages] = useState(1);
  const [reasonsBelow, setReasonsBelow] = useState(false);
  const sendButton = useRef<HTMLButtonElement>(null);
  /** Dangerous edit in which the user pressed Enter. */
  const [refused, setRefused] = useState<string>();

  // Takes the focus unless the user is typing elsewhere.
  useEffect(() => {
    const active = document.activeElement;
    const writes = active instanceof HTMLTextAreaElement && active.value !== "";
    const elsewhere = active?.closest(".terminal-side, dialog, .sidebar") ?? null;
    const edits = card.current?.contains(active) ?? false;
    if (!writes && !elsewhere && !edits) card.current?.focus();
  }, []);
  const latestDone = useLatest(done);
  // Somebody else answered: the card goes, and its focus must not be lost. The rest of a text that the user is writing
  // in the card must not become a prompt.
  useLayoutEffect(() => {
    const { current } = card;
    return () => {
      const { activeElement } = document;
      const moves = current?.contains(activeElement) && !activeElement?.matches("textarea, input");
      if (moves && !matchMedia(TOUCH).matches) latestDone.current();
    };
  }, [latestDone]);

  const edited = stage === "edit" && text !== step.proposal;
  // The effect and the risk of an edited command are unknown until the server has assessed it.
  const assessed = edited ? step.edits.get(text) : step;
  const known = assessed !== undefined;
  const findings = assessed?.findings ?? [];
  const risk = assessed?.risk;
  // These need a click, or a capital Y and Enter, because Enter alone is pressed too easily.
  const severe = risk === "dangerous" || risk === "lockout";
  const careful = severe || (edited && risk === undefined);
  const groups = groupedFindings(edited ? text : step.proposal, findings.filter(tellsMore));
  /** The worst is last, next to the end that must have been in view. */
  const reasonsAgainst = groups.filter((group) => isWorse(group.class, "changes")).reverse();
  // Findings of a severe edit are below the field and must be read, too.
  const shown = stage === "edit" ? `edit ${known} ${text}` : `ask ${previewed}`;
  /** True once the end of what would run, and of the reasons against it, has been in view. */
  const read = (stage === "edit" && readWhole && !(edited && severe)) || (end?.of === shown && end.inView);
  const unread = !read && end?.inView === false;
  const tellEnd = (of: string, inView: boolean) => {
    setEnd((before) => (before?.of === of && before.inView ? before : { of, inView }));
    if (inView && of === shown && (stage !== "edit" || text === whole)) setReadWith(previewed);
  };
  useEffect(() => {
    if (!editable || !online || known || !text.trim()) return;
    const ask = () => store.previewCommand(step.call, text);
    // A request is lost with its connection, or if another tab asks at the same time.
    const [first, again] = [setTimeout(ask, PREVIEW_AFTER_MS), setInterval(ask, PREVIEW_AGAIN_MS)];
    return () => {
      clearTimeout(first);
      clearInterval(again);
    };
  }, [text, known, editable, online, store, step.call]);

  const locked = disabled || !read;
  // A click that was meant for what was here before runs nothing: the page, or another answer in the same place.
  const { waits: tapped, tap } = useSecondTap(`${stage} ${shown}`);
  const settled = useSettled(`${stage} ${locked} ${known} ${tapped}`);
  const press = (event: MouseEvent, act: () => void) => (severe && isTap(event) ? tap(act) : act());
  const covered = step.covers;
  const allow = (decision: "allow" | "allow_session" | "allow_always") => {
    if (locked) return;
    store.decide(step.call, decision);
    // The card, which has the focus, goes.
    if (!matchMedia(TOUCH).matches) done();
  };
  const run = () => allow("allow");
  const readOn = () => {
    scrollByKey(body.current, "PageDown");
    // At the end, the button goes, and the focus with it.
    if (!document.activeElement?.matches(".edit > .field")) card.current?.focus({ preventScroll: true });
  };
  const allowSession = () => covered && allow("allow_session");
  const always = () => step.rule && allow("allow_always");
  const write = (command: string) => {
    setText(command);
    storage.saveEditedCommand(store.id, step.call, command);
  };
  const edit = () => {
    if (!editable) return;
    write(leftEdit.current ?? whole);
    setStage("edit");
  };
  const reject = () => setStage("reject");
  const back = () => {
    if (stage === "edit") leftEdit.current = text;
    storage.saveEditedCommand(store.id, step.call, undefined);
    setStage("ask");
    card.current?.focus();
  };
  const send = () => {
    if (disabled) return;
    if (stage === "edit") {
      // It runs only after its effect and its risk have been shown.
      if (!text.trim() || !known || locked || !settled) return;
      storage.saveEditedCommand(store.id, step.call, undefined);
      store.decide(step.call, "allow", edited ? { command: text } : {});
    } else {
      if (reason.trim()) store.rejectWith(step, reason.trim(), viewer);
      else store.decide(step.call, "reject");
    }
    done();
  };

  const letters = useLetters(
    {
      r: { act: reject, needsEnter: false },
      ...(editable && { e: { act: edit, needsEnter: false } }),
      ...(careful && { Y: { act: unread ? readOn : run, needsEnter: true } }),
    },
    prompt,
  );
  const keys = (event: KeyboardEvent) => {
    if (event.defaultPrevented || isShortcut(event) || event.nativeEvent.isComposing) return;
    if (stage === "always" && event.key === "Escape") {
      event.preventDefault();
      back();
    }
    if (stage === "always") return; // a rule is written by its button only
    if (event.target !== card.current) return; // its buttons and fields have keys of their own
    const isReady = performance.now() - since.current >= ENTER_AFTER_MS && !event.repeat;
    if (stage === "ask" && letters.press(event, isReady)) return;
    if (scrollByKey(body.current, event.key)) {
      event.preventDefault();
      return;
    }
    if (event.key === "Escape") {
      event.preventDefault();
      leave();
    } else if (event.key === "Enter" && (unread || stage === "ask")) {
      event.preventDefault();
      if (!isReady) return;
      if (unread) readOn();
      else if (settled && !careful) run();
    }
  };
  // Where Enter starts a new line, it must not run what is half written.
  const several = stage === "edit" && text.includes("\n");
  const fieldKeys = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.preventDefault();
      back();
    } else if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      if (several && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      if (stage === "reject") send();
      else if (event.repeat) return;
      else if (unread) readOn();
      else if (severe) setRefused(text);
      else if (!careful) send();
    } else if (event.key === "Tab" && !event.shiftKey && stage === "edit" && severe) {
      // Whatever else the card shows, the key on the button leads to the button, and to no other while it settles.
      if (!sendButton.current || disabled) return;
      event.preventDefault();
      if (!sendButton.current.disabled) sendButton.current.focus();
    }
  };

  const sessionAnswer = covered && !unread && (
    <button
      type="button"
      disabled={locked || !settled}
      onClick={allowSession}
      className="session"
      title={`Allow for this session: ${plainPhrase(covers(covered))}`}
    >
      Allow for session
      <small>
        <Phrase phrase={coversShown(covered, step.proposal)} />
      </small>
    </button>
  );
  const enter = several ? "Ctrl+Enter" : "Enter";
  const sendKey =
    stage === "edit" && severe ? "Tab, Enter" : stage === "reject" || !careful ? enter : undefined;
  const doubtful = confusableCharacters(edited ? text : step.proposal);
  return (
    <section
      ref={card}
      role="group"
      className={`review ${risk ?? ""}`}
      aria-label={note === undefined ? `${question} on ${where}?` : `${question}?`}
      aria-describedby="review-what"
      tabIndex={0}
      onKeyDown={keys}
      onFocus={(event) => {
        if (event.target === card.current) since.current = performance.now();
      }}
      onBlur={letters.blur}
    >
      <div className="card-body" ref={body}>
        <header>
          <strong>{isUndo ? <UndoQuestion step={step} /> : `${question}?`}</strong>
          {edited && !known ? (
            <span className="risk pending">assessing the edit…</span>
          ) : (
            <span className={`risk ${risk ?? "changes"}`}>{riskLabel(risk ?? "changes")}</span>
          )}
          {note === undefined && (
            <span className="host" title="Host">
              on {where}
            </span>
          )}
          {!isUndo && <code className="tool">{neutralizeLine(step.tool)}</code>}
          {place && (
            <span className="meta">
              call {place.number} of {place.count}
            </span>
          )}
        </header>
        <MissedHosts store={store} step={step} host={host} findings={(assessed ?? step).findings} />
        {step.askedBy !== undefined && <p className="meta">{originLabel(step, nameOf)}</p>}
        {step.reason && <p className="why">{neutralize(step.reason)}</p>}
        <ReadToEnd
          key={stage === "edit" ? "edit" : `ask ${previewed}`}
          of={shown}
          read={tellEnd}
          pagesLeft={setPages}
        >
          {stage === "edit" ? (
            <EditField text={text} fromStart={!readWhole || several} write={write} keys={fieldKeys} />
          ) : isUndo ? (
            <Preview lines={step.preview} id="review-what" />
          ) : (
            <>
              {!fileEdit && (
                <pre id="review-what" className={`what ${step.cardKind}`} tabIndex={0}>
                  {note === undefined ? (
                    <CommandText text={step.proposal} findings={step.findings} />
                  ) : (
                    <SafeText text={note} />
                  )}
                </pre>
              )}
              <Arguments step={step} overwrite={overwrite} />
            </>
          )}
          {assessed && !isUndo && <Preview lines={assessed.preview} withoutDiff={overwrite !== undefined} />}
          {doubtful.length > 0 && <p className="warning">Look-alike letters: {doubtful.join(", ")}</p>}
          <FindingList groups={reasonsAgainst} />
        </ReadToEnd>
        <OtherFindings
          groups={groups.filter((group) => !reasonsAgainst.includes(group))}
          count={findings.length}
          previewed={assessed !== undefined && isPreviewed(assessed.preview)}
          tellBelow={setReasonsBelow}
        />
        {isUndo && (
          <details className="details">
            <summary>Details</summary>
            <Arguments step={step} />
          </details>
        )}
        <Terms step={step} />
        {stage !== "edit" && step.guardSeconds !== undefined && (
          <p className="meta guarded">
            Guarded: rolls back by itself after {step.guardSeconds} s unless a fresh login works.
          </p>
        )}
        {stage === "edit" && (
          <p className="meta">
            {edited && "Runs the edited command. The model is told about the edit. "}
            {several ? "Enter" : "Shift+Enter"} starts a new line.
          </p>
        )}
        {stage === "reject" && (
          <input
            className="field"
            aria-label="Reason for the model (optional)"
            placeholder="Reason (optional)"
            value={reason}
            ref={focusEnd}
            onChange={(event) => setReason(event.target.value)}
            onKeyDown={fieldKeys}
          />
        )}
        {stage === "always" && step.rule && (
          <section className="rule" aria-label="Rule to save">
            <p className="meta">
              Runs the command, and from now on allows it with this rule, in every directory. Saved to{" "}
              <code>{neutralizeLine(step.rule.file)}</code> on the server.
            </p>
            <pre className="what" tabIndex={0} ref={focusOnce}>
              <SafeText text={step.rule.toml} />
            </pre>
          </section>
        )}
        {low && stage === "ask" && sessionAnswer}
      </div>
      {!unread && reasonsBelow && (stage === "ask" || stage === "edit") && (
        <div className="with-cue">
          <button
            type="button"
            className="cue reasons"
            tabIndex={-1}
            onMouseDown={(event) => event.preventDefault()} // the focus stays in the field
            onClick={() => scrollByKey(body.current, "PageDown")}
          >
            <span>
              <Icon name="down" /> reasons below
            </span>
          </button>
        </div>
      )}
      <footer>
        {unread && (stage === "ask" || stage === "edit") && (
          <button
            key="read-on"
            type="button"
            title="Shows the next page. The proposal can be allowed once its end has been in view."
            onMouseDown={(event) => event.preventDefault()} // the focus stays in the field
            onClick={readOn}
          >
            <span>
              Keep reading ({pages}
              <span className="word"> {pages === 1 ? "page" : "pages"}</span>)
            </span>{" "}
            <kbd>{enter}</kbd>
          </button>
        )}
        {stage === "always" && (
          <>
            <button type="button" className="primary" disabled={locked || !settled} onClick={always}>
              Run and save rule
            </button>
            <button type="button" onClick={back}>
              Back
            </button>
          </>
        )}
        {stage === "ask" && (
          <>
            {!unread && (
              <button
                key="run"
                type="button"
                className={careful ? "danger" : "primary"}
                disabled={locked || !settled}
                onClick={(event) => press(event, run)}
              >
                {tapped ? (
                  `${yes}: tap again`
                ) : (
                  <>
                    {yes} <kbd>{careful && letters.waiting === undefined ? "Y, Enter" : "Enter"}</kbd>
                  </>
                )}
              </button>
            )}
            {editable && (
              <button type="button" disabled={disabled} onClick={edit}>
                Edit <kbd>e</kbd>
              </button>
            )}
            <button type="button" disabled={disabled} onClick={reject}>
              Reject <kbd>r</kbd>
            </button>
            {!unread && (covered || step.rule) && (
              <span className="lasting">
                {!low && sessionAnswer}
                {step.rule && (
                  <button type="button" disabled={locked} onClick={() => setStage("always")}>
                    Always…
                  </button>
                )}
              </span>
            )}
          </>
        )}
        {(stage === "edit" || stage === "reject") && (
          <>
            {!(stage === "edit" && unread) && (
              <button
                key="send"
                ref={sendButton}
                type="button"
                className={careful ? "danger" : "primary"}
                disabled={disabled || (stage === "edit" && !(read && known && settled))}
                onClick={(event) => (stage === "edit" ? press(event, send) : send())}
              >
                {stage === "reject" ? "Reject" : edited ? "Run edited" : yes}
                {tapped ? ": tap again" : " "}
                {!tapped && sendKey && <kbd>{sendKey}</kbd>}
              </button>
            )}
            <button type="button" onClick={back}>
              Back <kbd>Esc</kbd>
            </button>
          </>
        )}
        {letters.waiting !== undefined && !locked && (
          <span className="meta" role="status">
            Press Enter to run, Esc to cancel.
          </span>
        )}
        {stage === "edit" && severe && refused === text && (
          <span className="meta" role="status">
            Press Tab, then Enter, to run a dangerous command.
          </span>
        )}
        {sent && <span className="meta">Answered. Waiting for the server…</span>}
        {!online && <span className="meta">Offline. You can answer when the connection is back.</span>}
      </footer>
    </section>
  );
}

function plainPhrase({ before, code, after }: CodePhrase): string {
  return [before, code, after].filter(Boolean).join(" ");
}

function Phrase({ phrase: { before, code, after } }: { phrase: CodePhrase }) {
  return (
    <>
      {before} {code && <code>{code}</code>} {after}
    </>
  );
}

function UndoQuestion({ step }: { step: Step }) {
  const { before, code } = undoneWhat(step.arguments);
  return <>Undo {code ? <code>{code}</code> : before}?</>;
}

/** Required people and expiry of the approval. */
function Terms({ step }: { step: Step }) {
  const nameOf = useName();
  const now = useNow(step.expiresAt !== undefined);
  const { expiresAt, people, given } = step;
  if (expiresAt === undefined && people < 2) return null;
  const by = given.length > 0 ? ` (${given.map(nameOf).join(", ")})` : "";
  return (
    <p className="meta terms">
      {people > 1 && (
        <span>
          {given.length} of {people} people have allowed this{by}.
        </span>
      )}
      {expiresAt !== undefined && <span>{expiryLabel(expiresAt, now)}</span>}
    </p>
  );
}

interface MissedHostsProps extends Pick<Props, "store" | "step" | "host"> {
  /** Findings for the proposal, or for an edit that was assessed later. */
  findings: readonly Finding[];
}

/** Hosts of the call that cannot be reached, or that the last calls did not reach. */
function MissedHosts({ store, step, host, findings }: MissedHostsProps) {
  const { items, facts } = store.snapshot().transcript;
  const onClient = facts?.lent?.tools.some(({ name }) => name === step.tool);
  const machine = useMachine();
  // What was found for the call is newer than the outcome of an earlier one.
  const found = findings.filter(isUnreached).map(({ why }) => why);
  const missed = () => missedHosts(items, undoneHosts(step.arguments, host).split(","), machine);
  const reasons = onClient || found.length > 0 ? found : missed();
  return reasons.map((reason) => (
    <p key={reason} className="warning">
      <span aria-hidden="true">! </span>
      {oneLine(reason)}
    </p>
  ));
}

interface PreviewProps {
  lines: readonly string[];
  /** True if the diff is shown elsewhere. */
  withoutDiff?: boolean;
  id?: string;
}

/** Effect preview of the call. Its text comes from the host. */
function Preview({ lines, withoutDiff = false, id }: PreviewProps) {
  const { summary: said, diff: all } = splitPreview(lines);
  const summary = said.map(previewLine).filter(Boolean);
  const diff = withoutDiff ? [] : all;
  if (summary.length === 0 && diff.length === 0) return null;
  return (
    <section id={id} className="effect" aria-label="Effect preview" role="status">
      {summary.map((line, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: equal lines may follow each other, and lines keep their order
        <p key={at} className={isUnknown(line) ? "meta" : undefined}>
          <CodeSpans text={oneLine(line)} />
        </p>
      ))}
      {diff.length > 0 && (
        <div className="diff" tabIndex={0} role="group" aria-label="Previewed changes">
          <DiffRows lines={previewedLines(diff)} />
        </div>
      )}
    </section>
  );
}

/** Returns true if the preview names an effect. */
function isPreviewed(lines: readonly string[]): boolean {
  return lines.map(previewLine).some((line) => line !== "" && !isUnknown(line));
}

/** Returns true unless a finding only repeats the words for its class, as the badge of the card does. */
function tellsMore(finding: Finding): boolean {
  return finding.why !== riskLabel(finding.class) && !isUnreached(finding);
}

interface FindingsProps {
  groups: readonly FindingGroup[];
  /** Number of findings that the server listed. */
  count: number;
  previewed: boolean;
  /** Called with true while the end of the findings that are listed is below the view. */
  tellBelow(below: boolean): void;
}

/** Findings that need not be read. Those that only say that it makes changes are details if the preview names these. */
function OtherFindings({ groups, count, previewed, tellBelow }: FindingsProps) {
  const details = previewed ? groups.filter(({ class: risk }) => risk === "changes") : [];
  const listed = groups.filter((group) => !details.includes(group));
  return (
    <>
      {listed.length > 0 && (
        <EndBelow tell={tellBelow}>
          <FindingList groups={listed} />
        </EndBelow>
      )}
      {details.length > 0 && (
        <details className="details">
          <summary>{details.length === 1 ? "1 more detail" : `${details.length} more details`}</summary>
          <FindingList groups={details} />
        </details>
      )}
      {count >= FINDINGS_MAX && (
        <p className="meta">Findings are listed and underlined up to {FINDINGS_MAX}; the list is cut here.</p>
      )}
    </>
  );
}

function FindingList({ groups }: { groups: readonly FindingGroup[] }) {
  if (groups.length === 0) return null;
  return (
    <ul className="findings">
      {groups.map(({ parts, whys, class: risk }) => {
        const [part = ""] = parts;
        const why = whys.map(neutralizeLine).join("; ");
        const isOne = parts.length === 1 && part !== "";
        return (
          <li key={part} className={isOne ? risk : `${risk} whole`}>
            {isOne && <code title={neutralizeLine(part)}>{neutralizeLine(part)}</code>}{" "}
            <span>
              {why}
              {parts.length > 1 && <FoundParts parts={parts} />}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

/** The first parts that a finding is about. All are underlined in the command. */
function FoundParts({ parts }: { parts: readonly string[] }) {
  const named = parts.length > NAMED_PARTS_MAX + 1 ? parts.slice(0, NAMED_PARTS_MAX) : parts;
  const others = parts.length - named.length;
  return (
    <>
      {named.map((part, at) => (
        <Fragment key={part}>
          {at === 0 ? ": " : ", "}
          <code title={neutralizeLine(part)}>{shortened(neutralizeLine(part))}</code>
        </Fragment>
      ))}
      {others > 0 && ` and ${others} more`}
    </>
  );
}

function shortened(part: string): string {
  return part.length > NAMED_CHARS_MAX ? `${part.slice(0, NAMED_CHARS_MAX)}…` : part;
}

function focusOnce(element: HTMLElement | null): void {
  element?.focus();
}

function focusEnd(field: HTMLTextAreaElement | HTMLInputElement | null): void {
  if (!field || document.activeElement === field) return;
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
}

/** Arguments that the short form omits, such as the complete text that a file tool would write. */
function Arguments({ step, overwrite }: { step: Step; overwrite?: Overwrite | undefined }) {
  if (step.effect === "command" || step.effect === "keys") return null;
  const { arguments: args } = step;
  if (typeof args !== "object" || args === null) return null;
  const edit = editOf(step.tool, args);
  const isNote = noteOf(step.tool, args) !== undefined;
  const isShown = (name: string) =>
    (edit !== undefined && showsArgument(name)) || (isNote && name === "text");
  const others = Object.entries(args).filter(([name]) => !isShown(name));
  const isReason = (value: unknown) => value === step.reason;
  return (
    <>
      {edit && <FileDiff edit={edit} overwrite={overwrite} id="review-what" />}
      <dl className="arguments">
        {others
          .filter(([, value]) => !isReason(value))
          .map(([name, value]) => (
            <div key={name}>
              <dt>{neutralizeLine(name)}</dt>
              <dd>
                <pre tabIndex={0}>
                  <SafeText text={typeof value === "string" ? value : JSON.stringify(value, null, 2)} />
                </pre>
              </dd>
            </div>
          ))}
      </dl>
    </>
  );
}
