/** Interface between the page and the live terminal. */
import type { Ref } from "react";
import type { Link } from "./protocol/session-link";

/** Id of the messages that tell the size of the page's terminal. */
export const TERMINAL_SIZE = "terminal-size";

/** Methods of a terminal. */
export interface TerminalHandle {
  /** Types a command and Enter. */
  run(command: string): void;
  /** Types text unchanged, without Enter. */
  paste(text: string): void;
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
  /** Called when the user sends selected text to the model. */
  onSelectionToModel(text: string): void;
  ref?: Ref<TerminalHandle>;
}

type Key = Pick<KeyboardEvent, "key" | "code" | "altKey" | "ctrlKey" | "metaKey" | "shiftKey">;

/** Returns true for keys of the page that programs in the terminal do not get: F1, and Alt+T, which hides it. */
export function isPageKeyInTerminal({ key, code, altKey, ctrlKey, metaKey, shiftKey }: Key): boolean {
  if (ctrlKey || metaKey || shiftKey) return false;
  return altKey ? code === "KeyT" : key === "F1";
}
