/** Waiting for an idle browser. */

/** Time after which a busy browser is not waited for any longer, in milliseconds. */
const WAIT_MS_MAX = 1_000;

/**
 * Resolves when the browser is idle, at the latest after `WAIT_MS_MAX`; in the next task where it cannot tell (Safari).
 */
export function idle(): Promise<void> {
  return new Promise((resolve) => {
    if (typeof requestIdleCallback !== "function") setTimeout(resolve);
    else requestIdleCallback(() => resolve(), { timeout: WAIT_MS_MAX });
  });
}
