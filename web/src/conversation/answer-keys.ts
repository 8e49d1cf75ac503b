/**
 * Letters that answer a proposal, held for a moment because they may also be the first letter of a message. Typing never
 * answers a proposal, at any usual speed, and no letter is lost: what is not an answer goes to the prompt.
 */
import { type FocusEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { useLatest } from "../app/hooks";

/** Time for which a letter is held, as in the TUI; people type at 100 to 300 ms per key. */
export const LETTER_PAUSE_MS = 400;

/** Keys that change others, which do not end the wait for another key. */
const MODIFIERS = ["Shift", "CapsLock", "AltGraph", "Control", "Alt", "Meta", "Fn"];
/** Keys with which a browser begins to compose a letter. */
const COMPOSES = ["Dead", "Process", "Compose"];
/** Keys that end the wait for another key, and that the card then does not handle. */
const ENDS = ["Enter", "Escape", "Backspace"];

/** The prompt, as the letters need it. */
export interface PromptWriter {
  /** Types text, and gives the focus to the prompt. */
  write(text: string): void;
  /** Types text, and leaves the focus where it is. */
  insert(text: string): void;
}

export interface Letter {
  act(): void;
  /** True if the letter acts only with Enter, and not after a pause. */
  needsEnter: boolean;
}

export interface LetterKeys {
  /**
   * Handles a key of the card. A letter counts as an answer only if `ready`, because nothing that was typed before the
   * proposal could be read is an answer. Returns true if the key was handled.
   */
  press(event: KeyboardEvent, ready: boolean): boolean;
  /** Ends the wait, because the card or a part of it loses the focus. */
  blur(event: FocusEvent): void;
  /** Letter that waits for Enter. */
  waiting: string | undefined;
}

/** Returns true if a key with Ctrl, Alt or Meta is a shortcut. AltGr writes letters. */
export function isShortcut({ ctrlKey, metaKey, altKey, nativeEvent }: KeyboardEvent): boolean {
  return (ctrlKey || metaKey || altKey) && !nativeEvent.getModifierState?.("AltGraph");
}

export function useLetters(
  letters: Readonly<Record<string, Letter>>,
  { write, insert }: PromptWriter,
): LetterKeys {
  const latest = useLatest({ letters, write });
  const held = useRef<string | undefined>(undefined);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const [waiting, setWaiting] = useState<string>();
  const take = (): string => {
    const letter = held.current ?? "";
    held.current = undefined;
    clearTimeout(timer.current);
    setWaiting(undefined);
    return letter;
  };
  const answer = () => latest.current.letters[take()]?.act();
  const hold = (letter: string, needsEnter: boolean) => {
    held.current = letter;
    if (needsEnter) setWaiting(letter);
    else timer.current = setTimeout(answer, LETTER_PAUSE_MS);
  };
  // Somebody else answered, or the session was left.
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      const letter = held.current;
      held.current = undefined; // the card that goes also loses the focus
      if (letter !== undefined) latest.current.write(letter);
    },
    [latest],
  );
  const press = (event: KeyboardEvent, ready: boolean): boolean => {
    const { key } = event;
    const holds = held.current !== undefined;
    if (MODIFIERS.includes(key)) return true;
    if (COMPOSES.includes(key)) {
      write(take()); // the browser composes the letter where the focus is by then
      return true;
    }
    if ([...key].length === 1) {
      // A space scrolls the card, and a question mark opens the help.
      if (!holds && (key === " " || key === "?")) return false;
      event.preventDefault();
      if (event.repeat) return true;
      const letter = holds || !ready ? undefined : letters[key];
      if (letter) hold(key, letter.needsEnter);
      else write(take() + key);
      return true;
    }
    if (!holds) return false;
    if (!ENDS.includes(key)) {
      insert(take());
      return false;
    }
    event.preventDefault();
    if (key === "Enter" && !event.repeat) answer();
    else take();
    return true;
  };
  const blur = ({ relatedTarget, currentTarget }: FocusEvent) => {
    const letter = take();
    // An answer that the user clicks replaces the letter.
    const stays = relatedTarget instanceof Node && currentTarget.contains(relatedTarget);
    if (letter && !stays) insert(letter);
  };
  return { press, blur, waiting };
}
