/** The live terminal of a session: one shell that the model and all who look share. */
import "@xterm/xterm/css/xterm.css";
import "./terminal.css";
import { useEffect, useImperativeHandle, useRef, useState } from "react";
import type { TerminalPaneProps } from "../terminal-api";
import { neutralize, neutralizeLine } from "../text/neutralize";
import { ConfirmInput } from "./ConfirmInput";
import { SearchBox } from "./SearchBox";
import { TerminalSession, type TerminalStatus } from "./terminal-session";

const DISCONNECTED: TerminalStatus = { connected: false };

export function TerminalPane({ link, theme, onSelectionToModel, ref }: TerminalPaneProps) {
  const place = useRef<HTMLDivElement>(null);
  const bar = useRef<HTMLElement>(null);
  const [attached, setAttached] = useState<TerminalSession>();
  const [terminalStatus, setTerminalStatus] = useState<TerminalStatus>(DISCONNECTED);
  const [searching, setSearching] = useState(false);
  const first = useRef(theme);

  useEffect(() => {
    if (!place.current) return;
    const made = new TerminalSession(link, place.current, first.current, (change) =>
      setTerminalStatus((was) => ({ ...was, ...change })),
    );
    made.onSearch = () => setSearching(true);
    made.onLeave = () => bar.current?.querySelector("button")?.focus();
    setAttached(made);
    return () => {
      setAttached(undefined);
      setTerminalStatus(DISCONNECTED);
      made.dispose();
    };
  }, [link]);

  useEffect(() => {
    first.current = theme;
    attached?.paint(theme);
  }, [attached, theme]);

  useImperativeHandle(
    ref,
    () => ({
      run: (command) => attached?.run(command),
      paste: (text) => attached?.paste(text),
      buffer: () => attached?.text() ?? "",
      focus: () => attached?.focus(),
    }),
    [attached],
  );

  const { asking, ended, holder, problem, selection, hint, connected } = terminalStatus;
  const close = () => {
    setSearching(false);
    attached?.focus();
  };
  return (
    <div className="terminal">
      {searching && attached && <SearchBox attached={attached} onClose={close} />}
      <div className="terminal-screen" ref={place} />
      {asking && <ConfirmInput asking={asking} />}
      <footer className="terminal-bar" ref={bar}>
        <span className="terminal-state" role="status">
          {!connected && <span className="terminal-off">offline: input disabled</span>}
          {connected && problem && <span className="terminal-off">{neutralizeLine(problem)}</span>}
          {ended && <span>{neutralizeLine(ended)}</span>}
          {holder !== undefined && (
            <span className="terminal-holder">{neutralizeLine(holder)} is typing; agent paused</span>
          )}
          {hint && <span className="terminal-hint">{neutralizeLine(hint)}</span>}
        </span>
        {holder !== undefined && (
          <button type="button" onClick={() => attached?.release()} title="Return control to the agent">
            Return control
          </button>
        )}
        {connected && (ended || problem) && (
          <button type="button" onClick={() => attached?.again()}>
            Open another shell
          </button>
        )}
        {selection && (
          <button
            type="button"
            className="terminal-send"
            onClick={() => onSelectionToModel(neutralize(attached?.selected() ?? ""))}
          >
            Send to the model
          </button>
        )}
        <button type="button" onClick={() => setSearching(true)} title="Search (Ctrl+Shift+F)">
          Search
        </button>
      </footer>
    </div>
  );
}
