/** Parts of the page that its first view does not need. Each is loaded when it is first wanted, or before. */
import { useEffect, useState } from "react";

export interface LazyPart<T> {
  /** The part, once it is loaded. */
  readonly loaded: T | undefined;
  /** Loads the part. After a failure, the next call tries again. */
  load(): Promise<T>;
  /** Loads the part before it is wanted. A failure is left to `load`. */
  preload(): void;
}

/** The code of a part could not be loaded. Browsers remember a failed import; only a reload of the page tries again. */
export class MissingCodeError extends Error {
  constructor() {
    super("the server did not send its code");
  }
}

export function lazyPart<T>(fetchPart: () => Promise<T>): LazyPart<T> {
  let loaded: T | undefined;
  let loading: Promise<T> | undefined;
  const load = async () => {
    try {
      loaded = await fetchPart();
      return loaded;
    } catch (error) {
      loading = undefined;
      throw error;
    }
  };
  const loadOnce = () => {
    loading ??= load();
    return loading;
  };
  return {
    get loaded() {
      return loaded;
    },
    load: loadOnce,
    preload: () => void loadOnce().catch(() => undefined),
  };
}

/**
 * Returns a part, or undefined until it is loaded, at the latest when it is wanted. Unlike with `Suspense`, a part that
 * was loaded before is there at once. A failure is thrown to the error boundary; trying there again also loads again.
 */
export function useLazyPart<T>(part: LazyPart<T>, wanted: boolean): T | undefined {
  const [, setCount] = useState(0);
  const [problem, setProblem] = useState<Error>();
  const { loaded } = part;
  const missing = wanted && !loaded;
  useEffect(() => {
    if (!missing) return;
    let here = true;
    part.load().then(
      () => here && setCount((before) => before + 1),
      () => here && setProblem(new MissingCodeError()),
    );
    return () => {
      here = false;
    };
  }, [part, missing]);
  if (problem) throw problem;
  return loaded;
}
