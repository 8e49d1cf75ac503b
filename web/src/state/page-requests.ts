/** A request of a command to the page around a session. */
export type PageRequest = "connect" | "list" | "terminal" | "settings" | "grants";

let answer: ((request: PageRequest) => void) | undefined;

export function askPage(request: PageRequest): void {
  answer?.(request);
}

/** Sets the function that carries requests out. Returns a function that ends this. */
export function onPageRequest(listener: (request: PageRequest) => void): () => void {
  answer = listener;
  return () => {
    if (answer === listener) answer = undefined;
  };
}
