/** All sessions of the server: found, opened, deleted. */
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { deleteSession, listSessions, type SessionRow } from "../protocol/api";
import { RequestError } from "../protocol/request-error";
import type { Sessions, Tabs } from "../state/sessions";
import { relativeTime, shortHostLabel } from "../text/labels";
import { neutralizeLine, oneLine } from "../text/neutralize";
import type { SessionState } from "../wire";
import { Icon } from "./icons";

/** How often the list is asked for while it is seen. */
const EVERY_MS = 10_000;

/** What a session does, in a word. */
const DOES: Record<SessionState, string> = {
  idle: "idle",
  thinking: "runs",
  running: "runs",
  waiting: "asks",
  paused: "paused",
  stopping: "stops",
};

interface Props {
  sessions: Sessions;
  tabs: Tabs;
  connect(): void;
  close(): void;
  /** On a narrow window it lies over the page and goes away once a session was chosen. */
  over: boolean;
}

/** Whether each word is somewhere in a row. */
export function matches(row: SessionRow, search: string): boolean {
  const text = `${row.title} ${row.host} ${row.root} ${row.sessionId}`.toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

/** What was just asked for takes the keyboard. */
function focus(button: HTMLButtonElement | null): void {
  button?.focus();
}

export function Sidebar({ sessions, tabs, connect, close, over }: Props) {
  const [rows, setRows] = useState<readonly SessionRow[]>();
  const [problem, setProblem] = useState<RequestError>();
  const [search, setSearch] = useState("");
  const [asked, setAsked] = useState<string>();
  const [now, setNow] = useState(Date.now);
  const field = useRef<HTMLInputElement>(null);

  const look = useCallback(async () => {
    try {
      setRows(await listSessions());
      setProblem(undefined);
    } catch (error) {
      if (error instanceof RequestError) setProblem(error);
    }
    setNow(Date.now());
  }, []);
  useEffect(() => {
    void look();
    const timer = setInterval(() => document.visibilityState === "visible" && void look(), EVERY_MS);
    return () => clearInterval(timer);
  }, [look]);
  useEffect(() => {
    if (over) field.current?.focus();
  }, [over]);

  const shown = useMemo(() => rows?.filter((row) => matches(row, search)) ?? [], [rows, search]);
  const choose = (id: string) => {
    sessions.show(id);
    if (over) close();
  };
  const remove = async (id: string) => {
    setAsked(undefined);
    try {
      await deleteSession(id);
      sessions.closeTab(id);
      setRows((before) => before?.filter((row) => row.sessionId !== id));
    } catch (error) {
      if (error instanceof RequestError) setProblem(error);
    }
    void look();
  };
  return (
    <nav
      className={`sidebar ${over ? "over" : ""}`}
      aria-label="Sessions"
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        if (asked) setAsked(undefined);
        else close();
      }}
    >
      <header>
        <h2>Sessions</h2>
        <button type="button" className="primary" onClick={connect}>
          + New
        </button>
        <button type="button" aria-label="Close list" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <input
        ref={field}
        type="search"
        className="field"
        placeholder="Search"
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
          <button type="button" onClick={() => void look()}>
            Try again
          </button>
        </div>
      )}
      <ul>
        {shown.map((row) => {
          const { sessionId: id, title, host, changed, state } = row;
          const current = tabs.active?.id === id;
          const name = oneLine(title) || "(empty)";
          return (
            <li key={id} className={current ? "current" : undefined}>
              <button
                type="button"
                className="choose"
                aria-current={current || undefined}
                onClick={() => choose(id)}
              >
                <span className="name">{name}</span>
                <span className="meta">
                  {state && state !== "idle" && (
                    <b className={`doing ${state}`}>
                      {DOES[state]}
                      {" · "}
                    </b>
                  )}
                  {shortHostLabel(host)} · {relativeTime(changed, now)}
                </span>
              </button>
              {asked === id ? (
                <span className="sure" role="group" aria-label={`Permanently delete ${name}?`}>
                  <button type="button" className="danger" ref={focus} onClick={() => void remove(id)}>
                    Delete
                  </button>
                  <button type="button" onClick={() => setAsked(undefined)}>
                    Keep
                  </button>
                </span>
              ) : (
                <button
                  type="button"
                  className="delete"
                  aria-label={`Delete ${name}`}
                  title="Delete permanently"
                  onClick={() => setAsked(id)}
                >
                  <Icon name="trash" />
                </button>
              )}
            </li>
          );
        })}
      </ul>
      {rows && shown.length === 0 && (
        <p className="empty">{rows.length === 0 ? "No sessions yet" : "No matches"}</p>
      )}
      {!rows && !problem && <p className="empty">Loading…</p>}
    </nav>
  );
}
