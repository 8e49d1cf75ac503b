/** The live terminals: one for each open session, of which one is seen. The component itself is loaded apart. */
import { type ComponentType, lazy, type RefCallback, Suspense, useCallback, useMemo } from "react";
import { fromTerminal, type SessionStore } from "../state/session-store";
import type { TerminalHandle, TerminalPaneProps } from "../terminal-api";
import { ErrorBoundary } from "./ErrorBoundary";
import type { Theme } from "./theme";

interface TerminalModule {
  TerminalPane?: ComponentType<TerminalPaneProps>;
  default?: ComponentType<TerminalPaneProps>;
}

const found = Object.values(import.meta.glob<TerminalModule>("../terminal/TerminalPane.tsx"))[0];

const TerminalPane = lazy(async (): Promise<{ default: ComponentType<TerminalPaneProps> }> => {
  const module = await found?.();
  return { default: module?.TerminalPane ?? module?.default ?? Missing };
});

/** The handles of the terminals that are there, by session. */
export const terminals = new Map<string, TerminalHandle>();

function Missing(_: TerminalPaneProps) {
  return <p className="empty">This build does not include the live terminal.</p>;
}

interface Props {
  open: readonly SessionStore[];
  active: SessionStore | undefined;
  theme: Theme;
}

export function TerminalSide({ open, active, theme }: Props) {
  return (
    <section className="terminal-side" aria-label="Terminal">
      {open.map((store) => (
        <div
          key={store.id}
          className={`terminal-slot ${store === active ? "" : "away"}`}
          inert={store !== active}
        >
          <ErrorBoundary what="The terminal">
            <Suspense fallback={<p className="empty">Opening the terminal…</p>}>
              <TerminalSlot store={store} theme={theme} />
            </Suspense>
          </ErrorBoundary>
        </div>
      ))}
    </section>
  );
}

function TerminalSlot({ store, theme }: { store: SessionStore; theme: Theme }) {
  const ref: RefCallback<TerminalHandle> = useCallback(
    (handle) => {
      if (handle) terminals.set(store.id, handle);
      else terminals.delete(store.id);
    },
    [store],
  );
  const toModel = useMemo(
    () => (text: string) => {
      if (text.trim()) store.appendToDraft(fromTerminal(text));
    },
    [store],
  );
  return <TerminalPane ref={ref} link={store.link} theme={theme} onSelectionToModel={toModel} />;
}
