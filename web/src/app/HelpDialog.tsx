/** Keyboard shortcuts of the page. */
import { Dialog } from "./Dialog";

/** Path of the guide. It is relative, because the page may be below a path of a proxy. */
export const GUIDE_URL = "help/";

const GROUPS: readonly { name: string; keys: readonly [string, readonly string[]][] }[] = [
  {
    name: "Everywhere, also in the terminal",
    keys: [
      ["Command palette", ["F1"]],
      ["Show or hide the terminal", ["Alt+T"]],
    ],
  },
  {
    name: "Outside the terminal",
    keys: [
      ["Command palette", ["Ctrl+K"]],
      ["This help (outside text fields)", ["?"]],
      ["Settings", ["Ctrl+,"]],
      ["New session", ["Alt+N"]],
      ["List and search sessions", ["Alt+S"]],
      ["Find in this conversation (again: in the page)", ["Ctrl+F"]],
      ["Next / previous match", ["F3", "Shift+F3"]],
      ["Pause or resume the turn", ["Alt+P"]],
      ["Previous / next tab, with a tab focused", ["←", "→"]],
      ["Close the focused tab", ["Delete"]],
    ],
  },
  {
    name: "Prompt",
    keys: [
      ["Send", ["Enter"]],
      ["New line", ["Shift+Enter"]],
      ["Earlier prompts", ["↑", "↓"]],
      ["Complete a /command", ["Tab", "Enter"]],
      ["Take a queued message back", ["click Edit beside it"]],
      ["Stop the running turn, if the prompt has neither text nor images", ["Esc"]],
      ["Run a command without a model", ["!command"]],
    ],
  },
  {
    name: "Proposal",
    keys: [
      ["Run, or apply a change", ["Enter"]],
      ["Run a dangerous command", ["Y, then Enter"]],
      ["Next page of a long one", ["Enter", "Space"]],
      ["Edit before running", ["e"]],
      ["Reject with a reason", ["r"]],
      ["Reject with a message", ["type it, then Enter"]],
      ["Back to the prompt", ["Esc"]],
    ],
  },
  {
    name: "Terminal",
    keys: [
      ["Search", ["Ctrl+Shift+F"]],
      ["Copy / paste", ["Ctrl+Shift+C", "Ctrl+Shift+V"]],
      ["Leave the terminal", ["Ctrl+Shift+Enter"]],
      ["Scroll", ["Shift+PageUp", "Shift+PageDown"]],
    ],
  },
];

export function HelpDialog({ close }: { close(): void }) {
  return (
    <Dialog title="Keyboard shortcuts" wide close={close}>
      <p>
        Tutorial, recipes, security and troubleshooting are in the{" "}
        <a href={GUIDE_URL} target="_blank" rel="noreferrer">
          user guide
        </a>
        .
      </p>
      <div className="keys">
        {GROUPS.map(({ name, keys }) => (
          <section key={name}>
            <h3>{name}</h3>
            <dl>
              {keys.map(([does, combinations]) => (
                <div key={does}>
                  <dt>{does}</dt>
                  <dd>
                    {combinations.map((keys) => (
                      <kbd key={keys}>{keys}</kbd>
                    ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
