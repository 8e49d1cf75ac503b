/** The page: session list, terminals and conversation. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { Conversation } from "../conversation/Conversation";
import { isWaiting, type SessionList } from "../state/session-list";
import type { SessionStore } from "../state/session-store";
import type { Sessions } from "../state/sessions";
import type { TerminalHandle } from "../terminal-api";
import type { CommandActions } from "../text/command-actions";
import { Dialogs } from "./Dialogs";
import { ErrorBoundary } from "./ErrorBoundary";
import { useLatest, useMedia, useSessionPart } from "./hooks";
import { Icon } from "./icons";
import { useTitle, useWaiting } from "./list-hooks";
import { MeContext, useFetchedMe } from "./me";
import { Offline } from "./Offline";
import { type OpenDialog, usePageKeys } from "./page-keys";
import { usePreferences } from "./preferences";
import { Sidebar } from "./Sidebar";
import { SplitPane } from "./SplitPane";
import { TabStrip } from "./TabStrip";
import { focusTerminal, TerminalSide, terminals, withTerminal } from "./TerminalSide";
import { useHalf, useLeftName, useTerminalUse } from "./terminal-use";
import { useTheme } from "./theme";
import { Welcome } from "./Welcome";

/** Below this width, only one half is visible at a time. */
const NARROW = "(max-width: 760px), (max-width: 960px) and (max-height: 500px)";
/** Below this height, a button of the header switches between the halves, which otherwise have a row. */
const LOW = "(max-height: 500px)";
/** Below this width, the session list is an overlay. */
const TIGHT = "(max-width: 1180px)";

interface Props {
  sessions: Sessions;
  sessionList: SessionList;
}

export function App({ sessions, sessionList }: Props) {
  const tabs = useSyncExternalStore(sessions.subscribe, sessions.snapshot);
  const { open, active } = tabs;
  useEffect(() => sessionList.follow(), [sessionList]);
  const waiting = useWaiting(sessionList, open);
  const me = useFetchedMe();
  const machine = me?.server?.machine;
  useEffect(() => {
    for (const store of open) store.machine = machine;
  }, [open, machine]);
  const [preferences, set] = usePreferences();
  const theme = useTheme(preferences.theme);
  const narrow = useMedia(NARROW);
  const low = useMedia(LOW);
  const tight = useMedia(TIGHT);
  const [listed, setListed] = useSessionListShown(tight, tabs.open.length === 0);
  /** Number of times that the user asked for the list, which then takes the focus. */
  const [listAsked, setListAsked] = useState(0);
  const askForList = () => {
    setListed(true);
    setListAsked((before) => before + 1);
  };
  const [dialog, setDialog] = useState<OpenDialog>();
  const [half, setHalf] = useHalf(active?.id);
  /** Session that the user just opened or loaded, which takes the focus once. */
  const [entered, setEntered] = useState(active?.id);
  const enter = (id: string) => {
    setEntered(id);
    sessions.show(id);
  };
  // Back and Forward lead to a session whose prompt has no focus yet.
  useLayoutEffect(() => {
    if (document.activeElement === document.body) setEntered(active?.id);
  }, [active?.id]);
  const terminalUsed = useTerminalUse(active);
  const terminalHidden = preferences.terminalHidden ?? !terminalUsed;
  // Loaded when first shown, because it is the largest part, and a phone shows the conversation first.
  const seen = useRef(false);
  seen.current ||= narrow ? half === "left" : active !== undefined && !terminalHidden;
  const terminalWanted = seen.current;
  const mayOperate = me === undefined || me.operate;
  const connect = () => setDialog("connect");
  const leaveTerminal = () => {
    const { activeElement } = document;
    if (!(activeElement instanceof HTMLElement && activeElement.closest(".terminal-side"))) return;
    activeElement.blur();
    setEntered(active?.id);
  };
  const terminalShown = narrow ? half === "left" : !terminalHidden;
  const toggleTerminal = () => {
    // A hidden terminal loses the focus, which then goes to the prompt.
    leaveTerminal();
    if (narrow) setHalf(terminalShown ? "right" : "left");
    else set.setTerminalHidden(terminalShown);
  };
  /** The same by a key: a terminal that appears gets the next keys. */
  const toggleTerminalByKey = () => {
    // Several hosts have a table instead.
    const hasOne = active?.snapshot().transcript.facts?.host.includes(",") === false;
    if (hasOne && !terminalShown && mayOperate) focusTerminal(active.id);
    toggleTerminal();
  };
  const begin = (id: string, task: string) => {
    enter(id);
    const store = sessions.snapshot().active;
    // A command of the page or a `!command` needs the connection, so the user sends it there.
    if (/^[!/]/.test(task)) store?.appendToDraft(task);
    else store?.say(task);
  };
  const waitingIds = useMemo(() => new Set(waiting.map(({ id }) => id)), [waiting]);
  const elsewhere = waiting.filter(({ id }) => id !== active?.id).length;
  const leftName = useLeftName(active);
  usePageKeys({
    open: (wanted) => (mayOperate || wanted !== "connect") && setDialog(wanted),
    // A list that is open without the focus gets it first.
    list: () => (listed && document.activeElement?.closest(".sidebar") ? setListed(false) : askForList()),
    toggleTerminal: toggleTerminalByKey,
    pause: () => {
      const phase = active?.snapshot().transcript.phase;
      if (!mayOperate || phase === undefined || phase === "idle" || phase === "stopping") return;
      if (phase === "paused") active?.resume();
      else active?.pause();
    },
  });
  const commands = useMemo<CommandActions | undefined>(() => {
    if (!active) return undefined;
    const inTerminal = (act: (terminal: TerminalHandle) => void) => {
      setHalf("left");
      set.setTerminalHidden(false);
      // A hidden terminal takes no focus.
      requestAnimationFrame(() => withTerminal(active.id, act));
    };
    return {
      run: (command) => inTerminal((terminal) => terminal.run(command)),
      insert: (command) =>
        inTerminal((terminal) => {
          terminal.insert(command);
          terminal.focus();
        }),
      buffer: () => terminals.get(active.id)?.buffer() ?? "",
    };
  }, [active, set, setHalf]);
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
            aria-label={elsewhere > 0 ? `Sessions, ${elsewhere} waiting for you` : "Sessions"}
            aria-expanded={listed}
            title="Sessions (Alt+S)"
            onClick={() => (listed ? setListed(false) : askForList())}
          >
            <Icon name="menu" />
            {elsewhere > 0 && <span className="badge-count">{elsewhere}</span>}
          </button>
          <h1 className="brand">sysop</h1>
          <TabStrip sessions={sessions} tabs={tabs} list={sessionList} />
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
          {active && (!narrow || low) && (
            <button
              type="button"
              className="terminal-button"
              aria-pressed={terminalShown}
              title="Show or hide the terminal (Alt+T)"
              onClick={toggleTerminal}
            >
              <Icon name="terminal" /> <span className="word">{leftName}</span>
              {narrow && half === "left" && <PendingBadge key={active.id} store={active} />}
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
            back={sessionList.refresh}
            closeTab={() => sessions.closeTab(active.id)}
          />
        )}
        {narrow && !low && active && (
          <nav className="halves" aria-label="View">
            <button type="button" aria-pressed={half === "left"} onClick={() => setHalf("left")}>
              {leftName}
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
              list={sessionList}
              waiting={waitingIds}
              over={tight}
              asked={listAsked}
              connect={connect}
              choose={enter}
              close={() => setListed(false)}
            />
          )}
          {active ? (
            <SplitPane
              only={narrow ? half : terminalHidden ? "right" : undefined}
              fontSize={preferences.fontSize}
              left={
                terminalWanted && (
                  <TerminalSide
                    open={open}
                    active={active}
                    theme={theme}
                    fontSize={preferences.fontSize}
                    leave={narrow ? undefined : leaveTerminal}
                  />
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
                        terminalShown={!narrow && !terminalHidden}
                        focused={() => setEntered(undefined)}
                      />
                    </ErrorBoundary>
                  )}
                </div>
              }
            />
          ) : (
            <Welcome
              waiting={waiting}
              enter={enter}
              begin={mayOperate ? begin : undefined}
              connect={connect}
              list={listed ? undefined : askForList}
            />
          )}
        </main>
        {active ? (
          <SessionDocumentTitle
            key={`title-${active.id}`}
            store={active}
            list={sessionList}
            count={waiting.length}
          />
        ) : (
          <DocumentTitle text={titleWith(waiting.length, "sysop")} />
        )}
        {dialog && (
          <ErrorBoundary key={dialog} what="The dialog">
            <Dialogs
              dialog={dialog}
              open={setDialog}
              close={() => setDialog((now) => (now === dialog ? undefined : now))}
              sessions={sessions}
              tabs={tabs}
              sessionList={sessionList}
              me={me}
              preferences={preferences}
              set={set}
              enter={(id) => {
                setDialog(undefined);
                enter(id);
              }}
              list={askForList}
              toggleTerminal={toggleTerminalByKey}
            />
          </ErrorBoundary>
        )}
      </div>
    </MeContext>
  );
}

/**
 * True if the list of sessions is shown. A list that becomes an overlay, as on a tablet that is turned, would cover the
 * conversation; it returns when there is room for it again.
 */
function useSessionListShown(tight: boolean, atFirst: boolean): [boolean, (shown: boolean) => void] {
  const [shown, setShown] = useState(atFirst && !tight);
  const latest = useLatest(shown);
  const returns = useRef(false);
  useEffect(() => {
    if (tight) returns.current = latest.current;
    setShown(!tight && (returns.current || latest.current));
    if (!tight) returns.current = false;
  }, [tight, latest]);
  return [shown, setShown];
}

/** Badge for pending approvals and prompts in the hidden half of the page. */
function PendingBadge({ store }: { store: SessionStore }) {
  const asks = useSessionPart(store, isWaiting);
  if (!asks) return null;
  return (
    <>
      <span className="dot waiting" aria-hidden="true" />
      <span className="visually-hidden">, needs approval</span>
    </>
  );
}

/** Title with the number of sessions that wait, for users with many tabs. */
function titleWith(count: number, text: string): string {
  return count > 0 ? `(${count}) ${text}` : text;
}

interface DocumentTitleProps {
  store: SessionStore;
  list: SessionList;
  /** Number of sessions that wait for an answer. */
  count: number;
}

function SessionDocumentTitle({ store, list, count }: DocumentTitleProps) {
  const title = useTitle(list, store);
  const runs = useSessionPart(store, ({ transcript }) => transcript.phase !== "idle");
  const text = `${title.slice(0, 80)} – sysop`;
  return <DocumentTitle text={count > 0 || !runs ? titleWith(count, text) : `… ${text}`} />;
}

function DocumentTitle({ text }: { text: string }) {
  useEffect(() => {
    document.title = text;
  }, [text]);
  return null;
}
