/** Tells where a call stands among several of one reply. */
import type { Transcript } from "./transcript";

/** Place of a call among those of its reply, counted from 1. */
export interface CallPlace {
  number: number;
  count: number;
}

/** Returns the place of a call among those of the last reply, or undefined if it is the only one. */
export function placeOf({ wanted }: Transcript, call: string): CallPlace | undefined {
  const at = wanted.findIndex(({ toolCallId }) => toolCallId === call);
  return at < 0 || wanted.length < 2 ? undefined : { number: at + 1, count: wanted.length };
}
