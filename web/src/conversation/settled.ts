/** Guards of answers that run something: an Enter, a click or a tap that was meant for something else is ignored. */
import { type MouseEvent, useEffect, useState } from "react";

/** Time that the card must have had the focus before Enter counts. */
export const ENTER_AFTER_MS = 300;
/** Time that an answer must have been in its place before a click counts; a finger aims longer. */
const CLICK_AFTER_MS = 300;
const TAP_AFTER_MS = 500;
/** Time for which the first tap on a dangerous answer waits for the second one. */
const SECOND_TAP_MS = 3_000;

/** Returns true once `state` has been the same for a moment. */
export function useSettled(state: string): boolean {
  const [settled, setSettled] = useState<string>();
  useEffect(() => {
    setSettled(undefined);
    const wait = matchMedia("(any-pointer: coarse)").matches ? TAP_AFTER_MS : CLICK_AFTER_MS;
    const timer = setTimeout(() => setSettled(state), wait);
    return () => clearTimeout(timer);
  }, [state]);
  return settled === state;
}

/** Matches touch screens, on which a focus on the prompt would open the keyboard. */
export const TOUCH = "(pointer: coarse)";

/** Returns true for a click by a finger. One of a browser that does not tell may be by a finger on a touch screen. */
export function isTap({ nativeEvent, detail }: MouseEvent): boolean {
  const { pointerType } = nativeEvent as Partial<globalThis.PointerEvent>;
  // A click by a key has no pointer, and the detail 0.
  return pointerType === undefined ? detail > 0 && matchMedia(TOUCH).matches : pointerType === "touch";
}

/** An answer that a first tap only prepares. */
interface SecondTap {
  /** True after the first tap. */
  waits: boolean;
  /** Runs the answer on the second tap. */
  tap(act: () => void): void;
}

/** Makes an answer wait for a second tap. `state` is what is answered; a change of it ends the wait. */
export function useSecondTap(state: string): SecondTap {
  const [tapped, setTapped] = useState<string>();
  useEffect(() => {
    if (tapped === undefined) return;
    const timer = setTimeout(() => setTapped(undefined), SECOND_TAP_MS);
    return () => clearTimeout(timer);
  }, [tapped]);
  const waits = tapped === state;
  const tap = (act: () => void) => {
    setTapped(waits ? undefined : state);
    if (waits) act();
  };
  return { waits, tap };
}
