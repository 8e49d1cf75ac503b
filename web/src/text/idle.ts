/** Waits until the browser is idle. */
/** Time after which `idle` resolves even if the browser is busy, in milliseconds. */
const WAIT_MS_MAX = 1_000;

/** Resolves when the browser has nothing more urgent to do, such as to paint. */
export function idle(): Promise<void> {
  return new Promise((resolve) => {
    // Safari has no such callback.
    if (typeof requestIdleCallback !== "function") setTimeout(resolve);
    else requestIdleCallback(() => resolve(), { timeout: WAIT_MS_MAX });
  });
}
