/** The whole page: sessions, terminals on one side, conversation on the other. */
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { Conversation } from "../conversation/Conversation";
import { askPermission, permission } from "../state/notify";
import type { SessionStore } from "../state/session-store";
import type { Sessions } from "../state/sessions";
import { pendingApproval } from "../state/transcript";
import { shortHostLabel } from "../text/labels";
import type { CommandActions } from "../text/Markdown";
import { neutralizeLine } from "../text/neutralize";
import { ErrorBoundary } from "./ErrorBoundary";
import { useMedia, useSessionPart, useSessionView } from "./hooks";
import { Icon } from "./icons";
import { NewSessionDialog } from "./NewSessionDialog";
import { Sidebar } from "./Sidebar";
import { SplitPane } from "./SplitPane";
import { TabStrip } from "./TabStrip";
import { TerminalSide, terminals } from "./TerminalSide";
import { useTheme } from "./theme";

/** Below this width one half is seen at a time. */
const NARROW = "(max-width: 760px)";
/** Below this width the list of sessions lies over the page. */
const TIGHT = "(max-width: 1180px)";

export function App({ sessions }: { sessions: Sessions }) {
  const tabs = useSyncExternalStore(sessions.subscribe, sessions.snapshot);
  const { theme, choice, next } = useTheme();
  const narrow = useMedia(NARROW);
  const tight = useMedia(TIGHT);
  const [listed, setListed] = useState(() => tabs.open.length === 0 && !matchMedia(TIGHT).matches);
  const [connecting, setConnecting] = useState(false);
  const [half, setHalf] = useState<"left" | "right">("right");
  const { open, active } = tabs;
  const commands = useMemo<CommandActions | undefined>(() => {
    if (!active) return undefined;
    const terminal = () => {
      setHalf("left");
      return terminals.get(active.id);
    };
    return {
      run: (command) => terminal()?.run(command),
      paste: (text) => {
        const found = terminal();
        found?.paste(text);
        found?.focus();
      },
      buffer: () => terminals.get(active.id)?.buffer() ?? "",
    };
  }, [active]);
  return (
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
          title="Sessions"
          onClick={() => setListed((before) => !before)}
        >
          <Icon name="menu" />
        </button>
        <h1 className="brand">sysop</h1>
        <TabStrip sessions={sessions} tabs={tabs} />
        <button
          type="button"
          className="icon add"
          aria-label="New session"
          title="New session"
          onClick={() => setConnecting(true)}
        >
          <Icon name="plus" />
        </button>
        <span className="spring" />
        {active && <AgentToggle key={active.id} store={active} />}
        <Bell />
        <button
          type="button"
          className="icon"
          aria-label={`Theme: ${choice}`}
          title={`Theme: ${choice}`}
          onClick={next}
        >
          <Icon name={choice} />
        </button>
      </header>
      {active && <Offline key={active.id} store={active} closeTab={() => sessions.closeTab(active.id)} />}
      {narrow && active && (
        <nav className="halves" aria-label="View">
          <button type="button" aria-pressed={half === "left"} onClick={() => setHalf("left")}>
            Terminal
          </button>
          <button type="button" aria-pressed={half === "right"} onClick={() => setHalf("right")}>
            Conversation
            {half === "left" && <PendingBadge key={active.id} store={active} />}
          </button>
        </nav>
      )}
      <main>
        {listed && tight && <div className="backdrop" aria-hidden="true" onClick={() => setListed(false)} />}
        {listed && (
          <Sidebar
            sessions={sessions}
            tabs={tabs}
            over={tight}
            connect={() => setConnecting(true)}
            close={() => setListed(false)}
          />
        )}
        {active ? (
          <SplitPane
            only={narrow ? half : undefined}
            left={<TerminalSide open={open} active={active} theme={theme} />}
            right={
              <div id="conversation" className="conversations">
                {commands && (
                  <ErrorBoundary key={active.id} what="The conversation">
                    <Conversation store={active} commands={commands} />
                  </ErrorBoundary>
                )}
              </div>
            }
          />
        ) : (
          <Welcome connect={() => setConnecting(true)} list={() => setListed(true)} />
        )}
      </main>
      {active && <DocumentTitle key={active.id} store={active} />}
      {connecting && (
        <NewSessionDialog
          made={(id) => {
            setConnecting(false);
            sessions.show(id);
          }}
          close={() => setConnecting(false)}
        />
      )}
    </div>
  );
}

function Welcome({ connect, list }: { connect(): void; list(): void }) {
  return (
    <section className="welcome" id="conversation">
      <p className="logo" aria-hidden="true">
        agent:/&gt;
      </p>
      <p>
        Describe a task. The model proposes commands; you approve, edit or reject each one before it runs.
      </p>
      <p>
        <button type="button" className="primary" onClick={connect}>
          New session
        </button>{" "}
        <button type="button" onClick={list}>
          Past sessions
        </button>
      </p>
    </section>
  );
}

/** What waits for the person in the half that they do not see. */
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

/** Seed 004's toggle. */
function AgentToggle({ store }: { store: SessionStore }) {
  const mode = useSessionPart(store, (view) => view.mode);
  const on = mode === "agent";
  return (
    <button
      type="button"
      className={`agent-toggle ${on ? "on glows" : ""}`}
      aria-pressed={on}
      title={
        on
          ? "Agent mode: the model can use tools. Click to switch to chat."
          : "Chat mode: no tools. Click to switch to agent mode."
      }
      onClick={() => store.setMode(on ? "chat" : "agent")}
    >
      <Icon name="bolt" /> Agent
    </button>
  );
}

function Bell() {
  const [allowed, setAllowed] = useState(permission);
  if (allowed === "missing") return null;
  const words = {
    granted: "Notifications are on",
    denied: "Notifications are blocked in the browser settings",
    default: "Notify me when a turn ends or needs approval while this tab is hidden",
  }[allowed];
  return (
    <button
      type="button"
      className={`icon bell ${allowed}`}
      aria-label={words}
      title={words}
      disabled={allowed === "denied"}
      aria-pressed={allowed === "granted"}
      onClick={() => void askPermission().then(setAllowed)}
    >
      <Icon name={allowed === "granted" ? "bell" : "bellOff"} />
    </button>
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
        <strong>{status.final ? "Closed" : "Offline"}:</strong> {neutralizeLine(status.why)}. {status.hint}
        {!status.final && " Drafts are saved."}
      </span>
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

/** The title tells what waits, for who has many tabs. */
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
