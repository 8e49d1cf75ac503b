/** The agent's task list, above the composer. It is updated in place; the transcript has one line per change. */
import { useState } from "react";
import { neutralizeLine } from "../text/neutralize";
import { taskCount } from "../text/notices";
import type { TodoItem, TodoState } from "../wire";

/** Symbols and words for the states, so that color is not needed to tell them. */
const STATES: Record<TodoState, [string, string]> = {
  done: ["✓", "done"],
  active: ["▸", "in progress"],
  pending: ["○", "to do"],
};
/** Space that the open list needs beside the conversation. */
const ROOMY = "(min-width: 761px) and (min-height: 701px)";

interface Props {
  tasks: readonly TodoItem[];
  /** False if the list is from an earlier turn; it is then closed until the user opens it. */
  ofThisTurn: boolean;
  /** True if something else above the composer waits for the user; the list is then closed until the user opens it. */
  waits: boolean;
}

export function TaskList({ tasks, ofThisTurn, waits }: Props) {
  const [chosen, choose] = useState<boolean>();
  const [roomy] = useState(() => matchMedia(ROOMY).matches);
  const open = chosen ?? (roomy && ofThisTurn && !waits);
  const current = tasks.find(({ state }) => state === "active");
  return (
    <section className="tasks" aria-label="Tasks">
      <button type="button" className="plain" aria-expanded={open} onClick={() => choose(!open)}>
        <span aria-hidden="true">{open ? "▾" : "▸"}</span> Tasks {taskCount(tasks)}
      </button>
      {!open && current && <span className="current">{neutralizeLine(current.text)}</span>}
      {open && (
        // biome-ignore lint/a11y/noRedundantRoles: without markers, Safari does not take it for a list
        <ul role="list">
          {tasks.map(({ text, state }, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: tasks have no other name, and may have the same text
            <li key={at} className={state} aria-current={state === "active" ? "step" : undefined}>
              <span className="mark" aria-hidden="true">
                {STATES[state][0]}
              </span>
              <span className="visually-hidden">{STATES[state][1]}: </span>
              <span>{neutralizeLine(text)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
