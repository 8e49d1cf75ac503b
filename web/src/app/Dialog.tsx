/** Modal dialog: keeps the focus, and closes with Escape. */
import { type ReactNode, useId, useLayoutEffect, useRef } from "react";
import { Icon } from "./icons";

interface Props {
  title: string;
  wide?: boolean;
  close(): void;
  children: ReactNode;
}

export function Dialog({ title, wide = false, close, children }: Props) {
  const dialog = useModal();
  const name = useId();
  return (
    <dialog ref={dialog} className={wide ? "wide" : undefined} aria-labelledby={name} onClose={close}>
      <div className="inner">
        <header>
          <h2 id={name}>{title}</h2>
          <button type="button" className="icon" aria-label="Close" onClick={() => dialog.current?.close()}>
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** Opens a dialog when it is mounted. If `any` is set, a click outside closes it, if the browser supports that. */
export function useModal(closedBy: "any" | "closerequest" = "closerequest") {
  const dialog = useRef<HTMLDialogElement>(null);
  // Before the next key, which may already be meant for the dialog.
  useLayoutEffect(() => {
    const { current } = dialog;
    current?.setAttribute("closedby", closedBy);
    if (current && !current.open) current.showModal();
  }, [closedBy]);
  return dialog;
}
