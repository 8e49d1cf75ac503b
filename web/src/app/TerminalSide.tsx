/** The live terminals: one for each open session, of which one is seen. The component itself is loaded apart. */
import {
  Component,
  type ComponentType,
  lazy,
  type ReactNode,
  type RefCallback,
  Suspense,
  useCallback,
  useMemo,
} from "react";
import type { SessionStore } from "../state/store";
import type { TerminalHandle, TerminalPaneProps } from "../terminal-api";
import { neutraliseLine } from "../text/neutralise";
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
  return <p className="empty">This build has no live terminal.</p>;
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
          <Safe>
            <Suspense fallback={<p className="empty">Opening the terminal…</p>}>
              <Slot store={store} theme={theme} />
            </Suspense>
          </Safe>
        </div>
      ))}
    </section>
  );
}

function Slot({ store, theme }: { store: SessionStore; theme: Theme }) {
  const ref: RefCallback<TerminalHandle> = useCallback(
    (handle) => {
      if (handle) terminals.set(store.id, handle);
      else terminals.delete(store.id);
    },
    [store],
  );
  const toModel = useMemo(
    () => (text: string) => {
      const shown = text.replace(/\s+$/, "");
      if (shown) store.giveBack(`From the terminal:\n\`\`\`\n${shown}\n\`\`\`\n`);
    },
    [store],
  );
  return <TerminalPane ref={ref} link={store.link} theme={theme} onSelectionToModel={toModel} />;
}

/** A terminal that breaks leaves the conversation alone. */
class Safe extends Component<{ children: ReactNode }, { why: string | undefined }> {
  override state = { why: undefined as string | undefined };

  static getDerivedStateFromError(error: unknown): { why: string } {
    return { why: error instanceof Error ? error.message : String(error) };
  }

  override render(): ReactNode {
    const { why } = this.state;
    if (why === undefined) return this.props.children;
    return (
      <div className="empty">
        <p>The terminal could not be shown: {neutraliseLine(why)}</p>
        <button type="button" onClick={() => this.setState({ why: undefined })}>
          Try again
        </button>
      </div>
    );
  }
}
