/** Keys that phone keyboards lack. */
import type { TerminalSession } from "./terminal-session";

/** Label of a key, its accessible name if the label is not a word, and the text that it types. */
const KEYS: readonly [string, string, string][] = [
  ["Esc", "Escape", "\u001b"],
  ["Tab", "Tab", "\t"],
  ["↑", "Up", "A"],
  ["↓", "Down", "B"],
  ["←", "Left", "D"],
  ["→", "Right", "C"],
  ["|", "Pipe", "|"],
  ["/", "Slash", "/"],
  ["-", "Dash", "-"],
  ["~", "Tilde", "~"],
];

interface Props {
  search(): void;
  attached: TerminalSession;
  /** True if the next letter is typed with Ctrl. */
  ctrl: boolean;
}

export function TouchKeys({ attached, ctrl, search }: Props) {
  // A key that took the focus would close the keyboard below it.
  const stay = (event: { preventDefault(): void }) => event.preventDefault();
  return (
    <div className="terminal-keys" role="toolbar" aria-label="Terminal keys">
      <button type="button" aria-pressed={ctrl} onPointerDown={stay} onClick={() => attached.holdCtrl(!ctrl)}>
        Ctrl
      </button>
      {KEYS.map(([label, name, code]) => (
        <button
          key={name}
          type="button"
          aria-label={name}
          onPointerDown={stay}
          onClick={() => (/^[A-D]$/.test(code) ? attached.arrow(code) : attached.typeKey(code))}
        >
          {label}
        </button>
      ))}
      <button type="button" onClick={search}>
        Search
      </button>
    </div>
  );
}
