/** Start screen, shown while no session is open. */
import { type KeyboardEvent, useContext, useEffect, useRef, useState } from "react";
import { createSession } from "../protocol/api";
import { RequestError } from "../protocol/request-error";
import type { WaitingSession } from "../state/session-list";
import { neutralizeLine } from "../text/neutralize";
import { MeContext } from "./me";
import { SessionFacts } from "./SessionFacts";

interface Props {
  waiting: readonly WaitingSession[];
  /** Opens a session. */
  enter(id: string): void;
  /** Opens a new session with a task; undefined if the user may not. */
  begin: ((id: string, task: string) => void) | undefined;
  connect(): void;
  /** Opens the list; undefined while it is open. */
  list: (() => void) | undefined;
}

export function Welcome({ waiting, enter, begin, connect, list }: Props) {
  const [next] = waiting;
  const server = useContext(MeContext)?.server;
  return (
    <section className="welcome" id="conversation">
      <p className="logo" aria-hidden="true">
        agent:/&gt;
      </p>
      {next && (
        <p className="needs" role="status">
          <span>
            <b>{waiting.length === 1 ? "1 session needs you:" : `${waiting.length} sessions need you:`}</b>{" "}
            {next.title}
          </span>
          <button type="button" onClick={() => enter(next.id)}>
            Review
          </button>
        </p>
      )}
      {begin ? (
        <p className="about">
          Describe a task.{" "}
          {server ? <SessionFacts facts={server} agent /> : "The model works on it step by step."}
        </p>
      ) : (
        <p>You can watch the sessions in the list.</p>
      )}
      {begin && <TaskField begin={begin} />}
      <p className="buttons">
        {begin && (
          <button type="button" onClick={connect}>
            New session
          </button>
        )}
        {list && (
          <button type="button" onClick={list}>
            Sessions
          </button>
        )}
      </p>
      <p className="hint">
        <kbd>F1</kbd> commands and keys
      </p>
    </section>
  );
}

/** Field whose text becomes the first prompt of a session with the server's defaults. */
function TaskField({ begin }: { begin(id: string, task: string): void }) {
  const [task, setTask] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<RequestError>();
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const { activeElement, body } = document;
    if (activeElement === body && !matchMedia("(pointer: coarse)").matches) field.current?.focus();
  }, []);
  const send = async () => {
    if (busy || !task.trim()) return;
    setBusy(true);
    setProblem(undefined);
    try {
      begin(await createSession({}), task.trim());
    } catch (error) {
      setBusy(false);
      if (!(error instanceof RequestError)) throw error;
      setProblem(error);
    }
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send();
  };
  return (
    <form
      className="task"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <textarea
        ref={field}
        className="field"
        aria-label="Task for a new session"
        placeholder="How full is the disk?"
        rows={2}
        value={task}
        readOnly={busy}
        onChange={(event) => setTask(event.target.value)}
        onKeyDown={keys}
      />
      <button type="submit" className="primary" disabled={busy || !task.trim()}>
        {busy ? "Starting…" : "Start"}
      </button>
      {problem && (
        <div className="trouble" role="alert">
          <div>
            <strong>{problem.what}:</strong> {neutralizeLine(problem.why)}
            {problem.hint && <p>{problem.hint}</p>}
          </div>
        </div>
      )}
    </form>
  );
}
