/** Guards of answers that run something: an Enter, a click or a tap that was meant for something else is ignored. */
import { useEffect, useState } from "react";

/** Time that the card must have had the focus before Enter counts. */
export const ENTER_AFTER_MS = 300;
/** Time that an answer must have been in its place before a click counts; a finger aims longer. */
const CLICK_AFTER_MS = 300;
const TAP_AFTER_MS = 500;

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
