/** Actions for the commands in a model's text. */
import { createContext } from "react";

export interface CommandActions {
  /** Asks, then types the command and Enter in the live terminal. */
  run(command: string): void;
  /** Types the command without Enter, in place of what the line holds. */
  insert(command: string): void;
  /** Returns the screen and scrollback of the live terminal. */
  buffer(): string;
}

export const Commands = createContext<CommandActions | undefined>(undefined);
