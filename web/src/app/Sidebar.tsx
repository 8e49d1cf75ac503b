/** List of the server's sessions, with search, rename, pin and delete. */
import {
  Fragment,
  type KeyboardEvent,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { deleteSession, labelSession, listSessions, type SessionRow } from "../protocol/api";
import { RequestError } from "../protocol/request-error";
import { isWaiting, type SessionList, titleOf } from "../state/session-list";
import type { SessionStore } from "../state/session-store";
import type { Sessions, Tabs } from "../state/sessions";
import { plainExcerpt, relativeTime, shortHostLabel } from "../text/labels";
import { neutralizeLine, oneLine } from "../text/neutralize";
import type { SessionState } from "../wire";
import { useSessionPart } from "./hooks";
import { Icon } from "./icons";
import { MeContext, useMachine } from "./me";

/** Interval between search requests while the list is visible, in milliseconds. */
const EVERY_MS = 10_000;
/** Matches touch screens, on which a field that takes the focus opens a keyboard over the list. */
const TOUCH = "(pointer: coarse)";

/** State of a session, in one word. */
const DOES: Record<SessionState, string> = {
  idle: "idle",
  thinking: "running",
  running: "running",
  waiting: "needs approval",
  paused: "paused",
  stopping: "stopping",
};

interface Props {
  sessions: Sessions;
  tabs: Tabs;
  list: SessionList;
  /** Ids of the sessions that wait for an answer, which come first. */
  waiting: ReadonlySet<string>;
  connect(): void;
  /** Opens a session, which takes the focus. */
  choose(id: string): void;
  close(): void;
  /** True in a narrow window: the list is an overlay, and closes when a session is chosen. */
  over: boolean;
  /** Number of times that the user asked for the list; each time, the search takes the focus. */
  asked: number;
}

/** Delay before a search is sent to the server, in milliseconds. */
const TYPED_MS = 250;
/** Maximum characters of a title, as on the server. */
const TITLE_CHARS_MAX = 80;

/** Moves waiting sessions to the front, the pinned ones first, then other pinned ones; otherwise the order is kept. */
export function inOrder(rows: readonly SessionRow[], waiting: ReadonlySet<string>): SessionRow[] {
  const rank = ({ sessionId, pinned }: SessionRow) => (waiting.has(sessionId) ? 0 : 2) + (pinned ? 0 : 1);
  return [0, 1, 2, 3].flatMap((wanted) => rows.filter((row) => rank(row) === wanted));
}

function rowId(session: string): string {
  return `session-${session}`;
}

/** Focuses an element when it appears. */
function focus(button: HTMLButtonElement | null): void {
  button?.focus();
}

export function Sidebar(props: Props) {
  const { sessions, tabs, list, waiting, connect, choose: enter, close, over, asked } = props;
  const me = useContext(MeContext);
  const mayChange = me === undefined || me.operate;
  const all = useSyncExternalStore(list.subscribe, list.snapshot);
  const [search, setSearch] = useState("");
  const { found, look } = useSearch(search);
  /** Error of a change. */
  const [failure, setFailure] = useState<RequestError>();
  /** Row with an open action menu. */
  const [opened, setOpened] = useState<string>();
  const panel = useRef<HTMLElement>(null);
  const field = useRef<HTMLInputElement>(null);

  useEffect(() => list.readAll(), [list]);
  useTurns(tabs.open, list.refresh);
  // Before the next key, which is meant for the search.
  useLayoutEffect(() => {
    if (asked === 0) return;
    if (matchMedia(TOUCH).matches) panel.current?.focus();
    else field.current?.focus();
  }, [asked]);

  // Repeats the search when the list can be read again.
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  useEffect(() => {
    if (!all.problem) void look();
  }, [all.problem]);

  const rows = (search.trim() && found.rows) || all.rows;
  const problem = failure ?? (search.trim() ? found.problem : all.problem);
  const shown = useMemo(() => inOrder(rows ?? [], waiting), [rows, waiting]);
  // The times of the rows are as old as the rows.
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  const now = useMemo(Date.now, [rows]);
  const refresh = () => {
    setFailure(undefined);
    void list.refresh();
    if (search.trim()) void look();
  };
  const choose = ({ sessionId, excerpt }: SessionRow) => {
    enter(sessionId);
    const words = search.trim();
    if (words && excerpt) sessions.snapshot().active?.find({ words, ofList: true });
    if (over) close();
  };
  /** Closes the actions of a row, which had the focus, and gives it to the button that opened them. */
  const closeActions = () => {
    if (opened === undefined) return;
    const row = document.getElementById(rowId(opened));
    row?.querySelector<HTMLElement>("[aria-expanded]")?.focus();
    setOpened(undefined);
  };
  const change = async (act: () => Promise<void>) => {
    closeActions();
    let failed: RequestError | undefined;
    try {
      await act();
    } catch (error) {
      if (error instanceof RequestError) failed = error;
    }
    refresh();
    setFailure(failed);
  };
  const remove = (id: string) =>
    change(async () => {
      await deleteSession(id);
      const row = document.getElementById(rowId(id));
      const near = row?.nextElementSibling ?? row?.previousElementSibling;
      const after = near?.querySelector<HTMLElement>(".choose") ?? panel.current;
      if (row?.contains(document.activeElement)) after?.focus();
      sessions.closeTab(id);
    });
  /** True once the rows are those of the search, and not of an earlier one. */
  const searched = !search.trim() || found.search === search;
  const keys = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Escape") {
      if (opened) closeActions();
      else close();
      return;
    }
    const [first] = shown;
    if (event.key === "Enter" && event.target === field.current && search.trim() && searched && first) {
      event.preventDefault();
      choose(first);
    } else if (panel.current && moveFocus(panel.current, event.key)) {
      event.preventDefault();
    }
  };
  return (
    <nav
      ref={panel}
      className={`sidebar ${over ? "over" : ""}`}
      aria-label="Sessions"
      tabIndex={-1}
      onKeyDown={keys}
    >
      <header>
        <h2>Sessions</h2>
        {mayChange && (
          <button type="button" className="primary" onClick={connect}>
            <Icon name="plus" /> New
          </button>
        )}
        <button type="button" className="icon" aria-label="Close list" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <input
        ref={field}
        type="search"
        className="field"
        placeholder="Search in all sessions"
        aria-label="Search sessions"
        value={search}
        onChange={(event) => setSearch(event.target.value)}
      />
      {problem && (
        <div className="trouble" role="alert">
          <div>
            <strong>{problem.what}:</strong> {neutralizeLine(problem.why)}
            {problem.hint && <p>{problem.hint}</p>}
          </div>
          <button type="button" onClick={refresh}>
            Try again
          </button>
        </div>
      )}
      <ul>
        {shown.map((row) => {
          const { sessionId: id } = row;
          const current = tabs.active?.id === id;
          return (
            <li key={id} id={rowId(id)} className={current ? "current" : undefined}>
              <div className="line">
                <Choice
                  row={row}
                  search={search}
                  current={current}
                  open={tabs.open.find((store) => store.id === id)}
                  now={now}
                  choose={choose}
                />
                {mayChange && (
                  <button
                    type="button"
                    className="icon"
                    aria-label={`Actions for ${titleOf(row)}`}
                    aria-expanded={opened === id}
                    onClick={() => setOpened(opened === id ? undefined : id)}
                  >
                    <Icon name="more" />
                  </button>
                )}
              </div>
              {opened === id && (
                <RowActions
                  row={row}
                  rename={(title) => void change(() => labelSession(id, { title }))}
                  pin={() => void change(() => labelSession(id, { pinned: !row.pinned }))}
                  remove={() => void remove(id)}
                  close={closeActions}
                />
              )}
            </li>
          );
        })}
      </ul>
      {rows && shown.length === 0 && <p className="empty">{search ? "No matches" : "No sessions yet"}</p>}
      {!rows && !problem && <p className="empty">Loading…</p>}
    </nav>
  );
}

/** Moves the focus among the search and the sessions. Returns false if it was neither there, or for another key. */
function moveFocus(panel: HTMLElement, key: string): boolean {
  const step = { ArrowUp: -1, ArrowDown: 1 }[key];
  const stops = [...panel.querySelectorAll<HTMLElement>("input[type=search], .choose")];
  const at = stops.indexOf(document.activeElement as HTMLElement);
  if (step === undefined || at < 0) return false;
  stops[at + step]?.focus();
  return true;
}

interface Found {
  /** Search whose rows these are. */
  search?: string;
  rows?: readonly SessionRow[];
  problem?: RequestError;
}

/** Rows of the last search that the server answered; undefined before the first. A search without words asks nothing. */
function useSearch(search: string) {
  const [found, setFound] = useState<Found>({});
  /** Number of the latest request; answers to earlier ones are dropped. */
  const latest = useRef(0);
  const look = useCallback(async () => {
    latest.current += 1;
    const asked = latest.current;
    if (!search.trim()) return;
    try {
      const rows = await listSessions(search);
      if (asked === latest.current) setFound({ search, rows });
    } catch (problem) {
      if (asked !== latest.current || !(problem instanceof RequestError)) return;
      setFound((before) => ({ ...before, problem }));
    }
  }, [search]);
  useEffect(() => {
    const first = setTimeout(() => void look(), TYPED_MS);
    const timer = setInterval(() => document.visibilityState === "visible" && void look(), EVERY_MS);
    return () => {
      clearTimeout(first);
      clearInterval(timer);
    };
  }, [look]);
  return { found, look };
}

/**
 * Reload the list when a session is opened here, and when a turn begins in one, because its first prompt becomes its
 * title.
 */
function useTurns(open: readonly SessionStore[], look: () => Promise<void>): void {
  const before = useRef(open);
  useEffect(() => {
    if (before.current !== open) void look();
    before.current = open;
    const ends = open.map((store) => {
      let { turn } = store.snapshot().transcript;
      return store.subscribe(() => {
        const now = store.snapshot().transcript.turn;
        if (now === turn) return;
        turn = now;
        void look();
      });
    });
    return () => {
      for (const end of ends) end();
    };
  }, [open, look]);
}

interface ChoiceProps {
  row: SessionRow;
  search: string;
  current: boolean;
  /** The session, if it is open in this browser tab. */
  open: SessionStore | undefined;
  now: number;
  choose(row: SessionRow): void;
}

function Choice({ row, search, current, open, now, choose }: ChoiceProps) {
  const { host, changed, state, pinned, excerpt } = row;
  const machine = useMachine();
  return (
    <button type="button" className="choose" aria-current={current || undefined} onClick={() => choose(row)}>
      <span className="name">
        {pinned && <Icon name="pin" />} {pinned && <span className="visually-hidden">Pinned: </span>}
        {titleOf(row)}
      </span>
      {excerpt && (
        <span className="excerpt">
          <Marked text={plainExcerpt(excerpt)} words={search} />
        </span>
      )}
      <span className="meta">
        {open ? <LiveState store={open} /> : <Doing state={state} />}
        {host === "none" ? "client" : shortHostLabel(host, machine)} · {relativeTime(changed, now)}
      </span>
    </button>
  );
}

/** The state of an open session is updated immediately, through its own connection. */
function LiveState({ store }: { store: SessionStore }) {
  const state = useSessionPart(store, (view) => {
    if (!view.caughtUp) return undefined;
    return isWaiting(view) ? "waiting" : view.transcript.phase;
  });
  return <Doing state={state} />;
}

function Doing({ state }: { state: SessionState | undefined }) {
  if (!state || state === "idle") return null;
  return (
    <>
      <b className={`doing ${state}`}>{DOES[state]}</b>
      {" · "}
    </>
  );
}

/** Text with the search words highlighted. */
function Marked({ text, words }: { text: string; words: string }) {
  const wanted = words.split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return text;
  const escaped = wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const parts = text.split(new RegExp(`(${escaped.join("|")})`, "gi"));
  return parts.map((part, at) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a string keep their positions
    at % 2 === 1 ? <mark key={at}>{part}</mark> : <Fragment key={at}>{part}</Fragment>,
  );
}

interface RowActionsProps {
  row: SessionRow;
  rename(title: string): void;
  pin(): void;
  remove(): void;
  /** Closes the actions. */
  close(): void;
}

function RowActions({ row, rename, pin, remove, close }: RowActionsProps) {
  const [stage, setStage] = useState<"choose" | "rename" | "delete">("choose");
  const name = titleOf(row);
  if (stage === "rename") {
    return (
      <form
        className="row-actions"
        onSubmit={(event) => {
          event.preventDefault();
          const title = String(new FormData(event.currentTarget).get("title") ?? "").trim();
          if (title) rename(title);
        }}
      >
        <input
          name="title"
          className="field"
          aria-label={`New name of ${name}`}
          defaultValue={oneLine(row.title)}
          maxLength={TITLE_CHARS_MAX}
          autoComplete="off"
          ref={focusAll}
        />
        <button type="submit" className="primary">
          Rename
        </button>
        <button type="button" onClick={() => setStage("choose")}>
          Cancel
        </button>
      </form>
    );
  }
  if (stage === "delete") {
    return (
      // With a key, its elements are new ones, so that one takes the focus. A second Enter or click deletes nothing.
      <span key="delete" className="row-actions" role="group" aria-label={`Permanently delete ${name}?`}>
        <button type="button" className="danger" onClick={remove}>
          Delete permanently
        </button>
        <button type="button" ref={focus} onClick={close}>
          Keep
        </button>
      </span>
    );
  }
  return (
    <span key="choose" className="row-actions" role="group" aria-label={`Actions for ${name}`}>
      <button type="button" ref={focus} onClick={() => setStage("rename")}>
        Rename
      </button>
      <button type="button" onClick={pin}>
        {row.pinned ? "Unpin" : "Pin"}
      </button>
      <button type="button" onClick={() => setStage("delete")}>
        Delete…
      </button>
    </span>
  );
}

function focusAll(field: HTMLInputElement | null): void {
  if (!field || document.activeElement === field) return;
  field.focus();
  field.select();
}
