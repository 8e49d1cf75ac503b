/** What the page and the live terminal say to each other. */
import type { Ref } from "react";
import type { Link } from "./protocol/session-link";

/** What the page asks of a terminal. */
export interface TerminalHandle {
  /** Types a command and Enter. */
  run(command: string): void;
  /** Types a text as it is, and no Enter. */
  paste(text: string): void;
  /** All that the terminal shows and has shown, as far as it keeps it. */
  buffer(): string;
  /** Takes the keyboard. */
  focus(): void;
}

/** What a terminal is given. */
export interface TerminalPaneProps {
  /** The connection of its session. */
  link: Link;
  /** Which colors. */
  theme: "dark" | "light";
  /** The size of its letters, in pixels. */
  fontSize: number;
  /** The person wants to send this text to the model. */
  onSelectionToModel(text: string): void;
  ref?: Ref<TerminalHandle>;
}
