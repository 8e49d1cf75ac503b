/** The open dialog. Its code is loaded after the first view, or when the first dialog opens. */
import { useLayoutEffect, useRef } from "react";
import type { Me } from "../protocol/api";
import type { SessionList } from "../state/session-list";
import type { Sessions, Tabs } from "../state/sessions";
import { lazyPart, useLazyPart } from "./lazy-part";
import type { OpenDialog } from "./page-keys";
import type { PreferenceActions, Preferences } from "./preferences";

export interface DialogProps {
  dialog: NonNullable<OpenDialog>;
  open(dialog: OpenDialog): void;
  close(): void;
  sessions: Sessions;
  tabs: Tabs;
  sessionList: SessionList;
  me: Me | undefined;
  preferences: Preferences;
  set: PreferenceActions;
  /** Opens a session, which takes the focus. */
  enter(id: string): void;
  list(listed: boolean): void;
  toggleTerminal(): void;
}

export const lazyDialogs = lazyPart(() => import("./DialogView"));

export function Dialogs(props: DialogProps) {
  const loaded = useLazyPart(lazyDialogs, true);
  return loaded ? <loaded.DialogView {...props} /> : <Opening close={props.close} />;
}

/** Has the focus while the code loads, so that what is typed for the dialog does not go into the terminal. */
function Opening({ close }: { close(): void }) {
  const place = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => {
    const { current } = place;
    const before = document.activeElement;
    current?.focus();
    return () => {
      // The dialog gives the focus back to the element that has it when the dialog opens.
      if (document.activeElement === current && before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <p
      ref={place}
      className="visually-hidden"
      role="status"
      tabIndex={-1}
      onKeyDown={(event) => event.key === "Escape" && close()}
    >
      Opening…
    </p>
  );
}
