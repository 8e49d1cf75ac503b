/** Interface between the page and the live terminal. */
import type { Ref } from "react";
import type { Link } from "./protocol/session-link";

/** Id of the messages that tell the size of the page's terminal. */
export const TERMINAL_SIZE = "terminal-size";

/** Methods of a terminal. */
export interface TerminalHandle {
  /** Types a command and Enter; where the user taps, after a confirmation. */
  run(command: string): void;
  /** Types a command without Enter, in place of what the line holds. */
  insert(command: string): void;
  /** Returns the screen and the scrollback. */
  buffer(): string;
  /** Focuses the terminal. */
  focus(): void;
}

/** Inputs of a terminal. */
export interface TerminalPaneProps {
  /** Connection of the session. */
  link: Link;
  /** Color scheme. */
  theme: "dark" | "light";
  /** Font size, in pixels. */
  fontSize: number;
  /** Name of the machine of its shell. */
  host: string;
  /** User who controls the terminal while the agent waits. */
  holder: string | undefined;
  /** Called when the user sends selected text to the model. */
  onSelectionToModel(text: string): void;
  /** Gives the focus to the prompt; undefined if the terminal hides it. */
  onLeave?: (() => void) | undefined;
  ref?: Ref<TerminalHandle>;
}

type Key = Pick<KeyboardEvent, "key" | "code" | "altKey" | "ctrlKey" | "metaKey" | "shiftKey">;

/** Returns the action of a key that the page handles everywhere, so that programs in the terminal do not get it. */
export function pageKeyInTerminal(event: Key): "palette" | "toggleTerminal" | undefined {
  const { key, code, altKey, ctrlKey, metaKey, shiftKey } = event;
  if (ctrlKey || metaKey || shiftKey) return undefined;
  if (altKey) return code === "KeyT" ? "toggleTerminal" : undefined; // the key's position, as in `page-keys.ts`
  return key === "F1" ? "palette" : undefined;
}
