/** Shows the text before it is typed into the terminal. */
import { useId, useLayoutEffect, useRef } from "react";
import { neutralize } from "../text/neutralize";
import type { InputConfirmation } from "./terminal-session";

/** Maximum characters to show; the number of omitted ones is shown. */
const SHOWN_MAX = 4000;

export function ConfirmInput({ asking }: { asking: InputConfirmation }) {
  const name = useId();
  const yes = useRef<HTMLButtonElement>(null);
  const no = useRef<HTMLButtonElement>(null);
  // Before the next key, which must not reach the terminal.
  useLayoutEffect(() => (asking.focus === "no" ? no : yes).current?.focus(), [asking]);
  const left = asking.text.length - SHOWN_MAX;
  return (
    <div
      className="terminal-ask"
      role="alertdialog"
      aria-labelledby={name}
      onKeyDown={(event) => event.key === "Escape" && asking.no()}
    >
      <p id={name}>{asking.why}</p>
      <pre tabIndex={0}>{neutralize(asking.text.slice(0, SHOWN_MAX))}</pre>
      {left > 0 && <p>… and {left} more characters.</p>}
      <p className="terminal-ask-buttons">
        <button type="button" ref={yes} onClick={asking.yes}>
          {asking.verb}
        </button>
        <button type="button" ref={no} onClick={asking.no}>
          Cancel
        </button>
      </p>
    </div>
  );
}
