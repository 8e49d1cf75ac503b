/** Searchable list of all actions. */
import { type KeyboardEvent, useId, useState } from "react";
import { oneLine } from "../text/neutralize";
import { useModal } from "./Dialog";

/** Action of the palette. */
export interface PageAction {
  name: string;
  /** Additional search text, shown next to the name. */
  detail?: string;
  keys?: string;
  run(): void;
}

/** Returns the actions that contain every word; those whose name begins with the first word come first. */
export function findActions(actions: readonly PageAction[], search: string): PageAction[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const text = ({ name, detail = "" }: PageAction) => `${name} ${detail}`.toLowerCase();
  const fitting = actions.filter((action) => words.every((word) => text(action).includes(word)));
  const begins = (action: PageAction) => (text(action).startsWith(words[0] ?? "") ? 0 : 1);
  return fitting.sort((a, b) => begins(a) - begins(b));
}

export function CommandPalette({ actions, close }: { actions: readonly PageAction[]; close(): void }) {
  const dialog = useModal("any");
  const [search, setSearch] = useState("");
  const [chosen, setChosen] = useState(0);
  const list = useId();
  const found = findActions(actions, search);
  const at = Math.min(chosen, found.length - 1);
  const run = (action: PageAction | undefined) => {
    if (!action) return;
    // Close first: a dialog restores the focus when it closes, and the action may move the focus.
    dialog.current?.close();
    action.run();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: found.length - 1 }[event.key];
    if (event.key === "Enter") run(found[at]);
    else if (to !== undefined && found.length > 0) setChosen((to + found.length) % found.length);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} className="palette" aria-label="Command palette" onClose={close}>
      <input
        type="text"
        role="combobox"
        aria-label="Command"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={found.length > 0 ? `${list}-${at}` : undefined}
        placeholder="Type a command"
        spellCheck="false"
        autoComplete="off"
        value={search}
        onChange={(event) => {
          setSearch(event.target.value);
          setChosen(0);
        }}
        onKeyDown={keys}
      />
      <div role="listbox" id={list} aria-label="Commands">
        {found.map(({ name, detail, keys: combination }, place) => (
          <div
            // biome-ignore lint/suspicious/noArrayIndexKey: two sessions may have one name
            key={place}
            id={`${list}-${place}`}
            role="option"
            tabIndex={-1}
            aria-selected={place === at}
            ref={place === at ? intoView : undefined}
            onMouseDown={(event) => {
              event.preventDefault();
              run(found[place]);
            }}
          >
            <span>{oneLine(name)}</span>
            {detail && <span className="meta">{oneLine(detail)}</span>}
            {combination && <kbd>{combination}</kbd>}
          </div>
        ))}
      </div>
      {found.length === 0 && <p className="empty">No matches</p>}
    </dialog>
  );
}

function intoView(element: HTMLElement | null): void {
  element?.scrollIntoView({ block: "nearest" });
}
