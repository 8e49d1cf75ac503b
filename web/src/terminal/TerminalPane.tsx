/** Live terminal of a session: one shell shared by the model and all users. */
import "@xterm/xterm/css/xterm.css";
import "./terminal.css";
import { useContext, useEffect, useImperativeHandle, useRef, useState } from "react";
import { useLatest, useMedia } from "../app/hooks";
import { isOrAre, MeContext, useName } from "../app/me";
import type { TerminalHandle, TerminalPaneProps } from "../terminal-api";
import { neutralize, neutralizeLine } from "../text/neutralize";
import { ConfirmInput } from "./ConfirmInput";
import { SearchBox } from "./SearchBox";
import { TouchKeys } from "./TouchKeys";
import { TerminalSession, type TerminalStatus } from "./terminal-session";

/** Matches devices without a full keyboard. */
const TOUCH = "(pointer: coarse), (max-width: 760px)";
const DISCONNECTED: TerminalStatus = { connected: false };

export function TerminalPane(props: TerminalPaneProps) {
  const { link, theme, fontSize, host, holder, onSelectionToModel, onLeave, ref } = props;
  const place = useRef<HTMLDivElement>(null);
  const bar = useRef<HTMLElement>(null);
  const [attached, setAttached] = useState<TerminalSession>();
  const [terminalStatus, setTerminalStatus] = useState<TerminalStatus>(DISCONNECTED);
  const [searching, setSearching] = useState(false);
  const touch = useMedia(TOUCH);
  const nameOf = useName();
  const me = useContext(MeContext);
  const watching = me !== undefined && !me.operate;
  const first = useRef({ theme, watching });
  const latestLeave = useLatest(onLeave);
  const question = useLatest(`Run this in the terminal on ${host}? sysop does not check it.`);

  useEffect(() => {
    if (!place.current) return;
    const made = new TerminalSession(
      link,
      place.current,
      first.current.theme,
      (change) => setTerminalStatus((was) => ({ ...was, ...change })),
      first.current.watching,
    );
    made.onSearch = () => setSearching(true);
    made.onLeave = () => {
      if (latestLeave.current) latestLeave.current();
      else bar.current?.querySelector("button")?.focus();
    };
    setAttached(made);
    return () => {
      setAttached(undefined);
      setTerminalStatus(DISCONNECTED);
      made.dispose();
    };
  }, [link, latestLeave]);

  useEffect(() => {
    first.current = { theme, watching };
    attached?.paint(theme);
    attached?.setWatching(watching);
  }, [attached, theme, watching]);

  useEffect(() => attached?.setFontSize(fontSize), [attached, fontSize]);

  useImperativeHandle<TerminalHandle | null, TerminalHandle | null>(
    ref,
    () =>
      attached
        ? {
            // A model wrote the command, and no approval follows.
            run: (command) => attached.run(command, question.current),
            insert: (command) => attached.insert(command),
            buffer: () => attached.text(),
            focus: () => attached.focus(),
          }
        : null,
    [attached, question],
  );

  const { asking, ended, restarted, problem, unopened, selection, hint, connected, ctrl } = terminalStatus;
  const close = () => {
    setSearching(false);
    attached?.focus();
  };
  // The button goes, and another key in the terminal would take the control again.
  const release = () => {
    attached?.release();
    onLeave?.();
  };
  return (
    <div className="terminal">
      {searching && attached && <SearchBox attached={attached} onClose={close} />}
      <div className="terminal-screen">
        <div className="terminal-fit" ref={place} />
      </div>
      {touch && attached && connected && !watching && (
        <TouchKeys attached={attached} ctrl={ctrl === true} search={() => setSearching(true)} />
      )}
      {connected && problem && (
        <div className="terminal-problem" role="alert">
          <p>
            <strong>No terminal:</strong> {neutralizeLine(problem)}
          </p>
          <button type="button" onClick={() => attached?.again()}>
            Try again
          </button>
        </div>
      )}
      {connected && unopened && (
        <div className="terminal-problem" role="status">
          <p>Nobody has opened the terminal of this session yet.</p>
          <button type="button" onClick={() => attached?.again()}>
            Look again
          </button>
        </div>
      )}
      {asking && <ConfirmInput asking={asking} />}
      {connected && restarted && (
        <p className="terminal-notice" role="status">
          The server restarted. This is a new shell; programs in the old one have ended.
        </p>
      )}
      <footer className="terminal-bar" ref={bar}>
        <span className="terminal-state" role="status">
          {!connected && <span className="terminal-off">offline: input disabled</span>}
          {connected && watching && <span>read-only</span>}
          {ended && <span>{neutralizeLine(ended)}</span>}
          {holder !== undefined && (
            <span className="terminal-holder">{isOrAre(nameOf(holder))} typing; agent paused</span>
          )}
          {hint && <span className="terminal-hint">{neutralizeLine(hint)}</span>}
        </span>
        {holder !== undefined && !watching && (
          <button type="button" onClick={release} title="Return control to the agent">
            Return control
          </button>
        )}
        {connected && ended && !problem && !watching && (
          <button type="button" onClick={() => attached?.again()}>
            Open another shell
          </button>
        )}
        {selection && !watching && (
          <button
            type="button"
            className="terminal-send"
            onClick={() => onSelectionToModel(neutralize(attached?.selected() ?? ""))}
          >
            Add to the prompt
          </button>
        )}
        {(watching || !(touch && connected)) && (
          <button type="button" onClick={() => setSearching(true)} title="Search (Ctrl+Shift+F)">
            Search
          </button>
        )}
      </footer>
    </div>
  );
}
