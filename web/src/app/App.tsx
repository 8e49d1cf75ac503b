/** The page: session list, terminals and conversation. */
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { Conversation } from "../conversation/Conversation";
import { SIGNED_OUT } from "../protocol/request-error";
import type { SessionStore } from "../state/session-store";
import type { Sessions } from "../state/sessions";
import { pendingApproval } from "../state/transcript";
import type { CommandActions } from "../text/command-actions";
import { shortHostLabel } from "../text/labels";
import { neutralizeLine } from "../text/neutralize";
import { Dialogs } from "./Dialogs";
import { ErrorBoundary } from "./ErrorBoundary";
import { useMedia, useSessionPart, useSessionView } from "./hooks";
import { Icon } from "./icons";
import { MeContext, useFetchedMe } from "./me";
import { type OpenDialog, usePageKeys } from "./page-keys";
import { usePreferences } from "./preferences";
import { Sidebar } from "./Sidebar";
import { SplitPane } from "./SplitPane";
import { TabStrip } from "./TabStrip";
import { TerminalSide, terminals, withTerminal } from "./TerminalSide";
import { useTheme } from "./theme";

/** Below this width, only one half is visible at a time. */
const NARROW = "(max-width: 760px)";
/** Below this width, the session list is an overlay. */
const TIGHT = "(max-width: 1180px)";
/** Matches touch screens, whose keyboard would cover a conversation that is opened to be read. */
const TOUCH = "(pointer: coarse)";

export function App({ sessions }: { sessions: Sessions }) {
  const tabs = useSyncExternalStore(sessions.subscribe, sessions.snapshot);
  const me = useFetchedMe();
  const [preferences, set] = usePreferences();
  const theme = useTheme(preferences.theme);
  const narrow = useMedia(NARROW);
  const tight = useMedia(TIGHT);
  const [listed, setListed] = useState(() => tabs.open.length === 0 && !matchMedia(TIGHT).matches);
  // A list that becomes an overlay, as on a tablet that is turned, would cover the conversation.
  useEffect(() => {
    if (tight) setListed(false);
  }, [tight]);
  const [dialog, setDialog] = useState<OpenDialog>();
  const [half, setHalf] = useState<"left" | "right">("right");
  /** Session that the user just opened, which takes the focus once. */
  const [entered, setEntered] = useState<string>();
  const enter = (id: string) => {
    setEntered(id);
    sessions.show(id);
  };
  const { open, active } = tabs;
  // Loaded when first shown, because it is the largest part, and a phone shows the conversation first.
  const seen = useRef(false);
  seen.current ||= narrow ? half === "left" : !preferences.terminalHidden;
  const terminalWanted = seen.current;
  const mayOperate = me === undefined || me.operate;
  const connect = () => setDialog("connect");
  const toggleTerminal = () => {
    // A hidden terminal loses the focus, which then goes to the prompt.
    const { activeElement } = document;
    if (activeElement instanceof HTMLElement && activeElement.closest(".terminal-side")) {
      activeElement.blur();
      setEntered(active?.id);
    }
    if (narrow) setHalf(half === "left" ? "right" : "left");
    else set.setTerminalHidden(!preferences.terminalHidden);
  };
  usePageKeys({
    open: (wanted) => (mayOperate || wanted !== "connect") && setDialog(wanted),
    list: () => setListed((before) => !before),
    toggleTerminal,
  });
  const commands = useMemo<CommandActions | undefined>(() => {
    if (!active) return undefined;
    const show = () => {
      setHalf("left");
      set.setTerminalHidden(false);
    };
    return {
      run: (command) => {
        show();
        withTerminal(active.id, (terminal) => terminal.run(command));
      },
      paste: (text) => {
        show();
        withTerminal(active.id, (terminal) => {
          terminal.paste(text);
          terminal.focus();
        });
      },
      buffer: () => terminals.get(active.id)?.buffer() ?? "",
    };
  }, [active, set]);
  return (
    <MeContext value={me}>
      <div className="app">
        <a className="skip" href="#conversation">
          Skip to conversation
        </a>
        <header className="top">
          <button
            type="button"
            className="icon"
            aria-label="Sessions"
            aria-expanded={listed}
            title="Sessions (Alt+S)"
            onClick={() => setListed((before) => !before)}
          >
            <Icon name="menu" />
          </button>
          <h1 className="brand">sysop</h1>
          <TabStrip sessions={sessions} tabs={tabs} />
          {mayOperate && (
            <button
              type="button"
              className="icon add"
              aria-label="New session"
              title="New session (Alt+N)"
              onClick={connect}
            >
              <Icon name="plus" />
            </button>
          )}
          <span className="spring" />
          <button
            type="button"
            className="plain palette-button"
            aria-label="Commands"
            onClick={() => setDialog("palette")}
          >
            <Icon name="search" /> <span>Commands</span> <kbd>F1</kbd>
          </button>
          {active && !narrow && (
            <button
              type="button"
              className="icon"
              aria-label="Terminal"
              aria-pressed={!preferences.terminalHidden}
              title="Show or hide the terminal (Alt+T)"
              onClick={toggleTerminal}
            >
              <Icon name="terminal" />
            </button>
          )}
          <button
            type="button"
            className="icon"
            aria-label="Settings"
            title="Settings (Ctrl+,)"
            onClick={() => setDialog("settings")}
          >
            <Icon name="settings" />
          </button>
        </header>
        {active && (
          <Offline
            key={`offline-${active.id}`}
            store={active}
            closeTab={() => sessions.closeTab(active.id)}
          />
        )}
        {narrow && active && (
          <nav className="halves" aria-label="View">
            <button type="button" aria-pressed={half === "left"} onClick={() => setHalf("left")}>
              <LeftName key={active.id} store={active} />
            </button>
            <button type="button" aria-pressed={half === "right"} onClick={() => setHalf("right")}>
              Conversation
              {half === "left" && <PendingBadge key={active.id} store={active} />}
            </button>
          </nav>
        )}
        <main>
          {listed && tight && (
            <div className="backdrop" aria-hidden="true" onClick={() => setListed(false)} />
          )}
          {listed && (
            <Sidebar
              sessions={sessions}
              tabs={tabs}
              over={tight}
              connect={connect}
              choose={(id) => (matchMedia(TOUCH).matches ? sessions.show(id) : enter(id))}
              close={() => setListed(false)}
            />
          )}
          {active ? (
            <SplitPane
              only={narrow ? half : preferences.terminalHidden ? "right" : undefined}
              left={
                terminalWanted && (
                  <TerminalSide open={open} active={active} theme={theme} fontSize={preferences.fontSize} />
                )
              }
              right={
                <div id="conversation" className="conversations">
                  {commands && (
                    <ErrorBoundary key={active.id} what="The conversation">
                      <Conversation
                        store={active}
                        commands={commands}
                        takesFocus={entered === active.id}
                        focused={() => setEntered(undefined)}
                      />
                    </ErrorBoundary>
                  )}
                </div>
              }
            />
          ) : (
            <Welcome
              connect={mayOperate ? connect : undefined}
              list={listed ? undefined : () => setListed(true)}
            />
          )}
        </main>
        {active && <DocumentTitle key={`title-${active.id}`} store={active} />}
        {dialog && (
          <ErrorBoundary key={dialog} what="The dialog">
            <Dialogs
              dialog={dialog}
              open={setDialog}
              close={() => setDialog((now) => (now === dialog ? undefined : now))}
              sessions={sessions}
              tabs={tabs}
              me={me}
              preferences={preferences}
              set={set}
              enter={(id) => {
                setDialog(undefined);
                enter(id);
              }}
              list={setListed}
              toggleTerminal={toggleTerminal}
            />
          </ErrorBoundary>
        )}
      </div>
    </MeContext>
  );
}

function Welcome({ connect, list }: Record<"connect" | "list", (() => void) | undefined>) {
  return (
    <section className="welcome" id="conversation">
      <p className="logo" aria-hidden="true">
        agent:/&gt;
      </p>
      <p>
        Describe a task. The model proposes commands; you approve, edit or reject each one before it runs.
      </p>
      <p className="buttons">
        {connect && (
          <button type="button" className="primary" onClick={connect}>
            New session
          </button>
        )}
        {list && (
          <button type="button" onClick={list}>
            Past sessions
          </button>
        )}
      </p>
      <p className="hint">
        <kbd>F1</kbd> commands · <kbd>?</kbd> keys
      </p>
    </section>
  );
}

/** Name of the left half: a session on several hosts has a table of them instead of a terminal. */
function LeftName({ store }: { store: SessionStore }) {
  return useSessionPart(store, ({ transcript }) => transcript.facts?.host.includes(",") ?? false)
    ? "Hosts"
    : "Terminal";
}

/** Badge for pending approvals and prompts in the hidden half of the page. */
function PendingBadge({ store }: { store: SessionStore }) {
  const asks = useSessionPart(
    store,
    ({ transcript }) => pendingApproval(transcript) !== undefined || transcript.questions.length > 0,
  );
  if (!asks) return null;
  return (
    <>
      <span className="dot waiting" aria-hidden="true" />
      <span className="visually-hidden">, needs approval</span>
    </>
  );
}

function Offline({ store, closeTab }: { store: SessionStore; closeTab(): void }) {
  const status = useSessionPart(store, (view) => view.status);
  if (status.state === "open" && status.kind === "events") {
    return (
      <p className="banner slow" role="status">
        WebSocket blocked. Using slower HTTP requests instead.
      </p>
    );
  }
  if (status.state !== "offline") return null;
  return (
    <div className="banner offline" role="alert">
      <span>
        <strong>{status.final ? "Closed" : "Offline"}:</strong> {neutralizeLine(status.why)}.
        {status.hint && ` ${status.hint}`}
        {!status.final && " Drafts are saved."}
      </span>
      {status.final && status.why === SIGNED_OUT && (
        <button type="button" className="primary" onClick={() => location.reload()}>
          Sign in
        </button>
      )}
      {status.final ? (
        <button type="button" onClick={closeTab}>
          Close tab
        </button>
      ) : (
        <button type="button" onClick={store.link.again}>
          Retry now
        </button>
      )}
    </div>
  );
}

/** Shows pending approvals in the document title, for users with many tabs. */
function DocumentTitle({ store }: { store: SessionStore }) {
  const view = useSessionView(store);
  const { transcript } = view;
  const host = transcript.facts ? shortHostLabel(transcript.facts.host) : "";
  const asks = pendingApproval(transcript) !== undefined || transcript.questions.length > 0;
  const title = `${asks ? "● " : transcript.phase === "idle" ? "" : "… "}${host ? `${host} – ` : ""}sysop`;
  useEffect(() => {
    document.title = title;
    return () => {
      document.title = "sysop";
    };
  }, [title]);
  return null;
}
