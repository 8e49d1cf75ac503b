/** Live terminals, one per open session; one is visible. The terminal component is loaded lazily. */
import { type RefCallback, useCallback, useMemo } from "react";
import { lazyParts } from "../conversation/Conversation";
import { fromTerminal, type SessionStore } from "../state/session-store";
import type { TerminalHandle } from "../terminal-api";
import { hostLabel } from "../text/labels";
import { ErrorBoundary } from "./ErrorBoundary";
import { useSessionPart } from "./hooks";
import { lazyPart, useLazyPart } from "./lazy-part";
import { useMachine } from "./me";
import type { Theme } from "./theme";

const lazyTerminal = lazyPart(() => import("../terminal/TerminalPane"));

/** Handles of the mounted terminals, by session. */
export const terminals = new Map<string, TerminalHandle>();
/** Actions to run when a session's terminal is mounted. */
const awaited = new Map<string, (terminal: TerminalHandle) => void>();

/** Runs an action on a session's terminal once it is mounted. */
export function withTerminal(id: string, act: (terminal: TerminalHandle) => void): void {
  const terminal = terminals.get(id);
  if (terminal) act(terminal);
  else awaited.set(id, act);
}

/** Gives the focus to a session's terminal once it is shown, unless the user has gone elsewhere by then. */
export function focusTerminal(id: string): void {
  const { activeElement } = document;
  // The terminal may still be loading, and without a focus, keys would be lost.
  withTerminal(id, (terminal) => {
    if (document.activeElement !== activeElement) return;
    if (activeElement instanceof HTMLElement) activeElement.blur();
    const stays = () => document.activeElement === document.body;
    requestAnimationFrame(() => stays() && terminal.focus());
  });
}

interface Props {
  open: readonly SessionStore[];
  active: SessionStore | undefined;
  theme: Theme;
  fontSize: number;
  /** Gives the focus to the prompt; undefined if the terminal hides it. */
  leave: (() => void) | undefined;
}

export function TerminalSide({ open, active, theme, fontSize, leave }: Props) {
  return (
    <section className="terminal-side" aria-label="Terminal">
      {open.map((store) => (
        <div
          key={store.id}
          className={`terminal-slot ${store === active ? "" : "away"}`}
          inert={store !== active}
        >
          <ErrorBoundary what="The terminal">
            <TerminalSlot store={store} theme={theme} fontSize={fontSize} leave={leave} />
          </ErrorBoundary>
        </div>
      ))}
    </section>
  );
}

type SlotProps = Pick<Props, "theme" | "fontSize" | "leave"> & { store: SessionStore };

function TerminalSlot({ store, theme, fontSize, leave }: SlotProps) {
  const several = useSessionPart(store, (view) => view.transcript.facts?.host.includes(",") ?? false);
  const holder = useSessionPart(store, (view) => view.transcript.holder);
  const host = useSessionPart(store, (view) => view.transcript.facts?.host ?? "local");
  const machine = useMachine();
  const loaded = useLazyPart(lazyTerminal, !several);
  const parts = useLazyPart(lazyParts, several);
  const ref: RefCallback<TerminalHandle> = useCallback(
    (handle) => {
      if (!handle) {
        terminals.delete(store.id);
        return;
      }
      terminals.set(store.id, handle);
      awaited.get(store.id)?.(handle);
      awaited.delete(store.id);
    },
    [store],
  );
  const toModel = useMemo(
    () => (text: string) => {
      if (!text.trim()) return;
      if (document.activeElement instanceof HTMLElement) document.activeElement.blur(); // for the composer
      store.appendToDraft(fromTerminal(text));
    },
    [store],
  );
  // Several hosts have no terminal that they could share.
  if (several) return parts && <parts.HostTable store={store} />;
  if (!loaded) return <p className="empty">Opening the terminal…</p>;
  return (
    <loaded.TerminalPane
      ref={ref}
      link={store.link}
      theme={theme}
      fontSize={fontSize}
      host={hostLabel(host, machine)}
      holder={holder}
      onSelectionToModel={toModel}
      onLeave={leave}
    />
  );
}
