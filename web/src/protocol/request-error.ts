/** What goes wrong between the page and its server, as a person is told of it: what, where, and what to do. */

/** A failed request. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  constructor(
    /** What failed, as `Sessions could not be listed`. */
    readonly what: string,
    /** The server's own sentence, or why there was no answer. */
    readonly why: string,
    /** What to do about it. */
    readonly hint: string,
    /** The HTTP status; 0 where there was no answer. */
    readonly status: number,
    /** The server's word for programs. */
    readonly code: string,
    /** Which request: method and path. */
    readonly where: string,
  ) {
    super(`${what}: ${why}`);
  }
}

/** What to do about a problem of this kind; empty where its sentence says it already. */
export function hintFor(status: number, code: string): string {
  switch (code) {
    case "unauthorized":
      return "Open the URL that `sysop serve` printed, or sign in with a token at /.";
    case "forbidden":
      return ""; // its sentence says what to do
    case "forbidden_scope":
      return "Create a token with more permissions: `sysop token create --scope operate`.";
    case "busy":
      return "Wait for the turn to end, or stop it.";
    case "stale":
      return "It was already answered.";
    case "too_large":
      return "Shorten it, or put it in a file.";
    case "too_many":
      return "Wait a moment and try again.";
    case "no_session":
      return "It was deleted. Start a new session.";
    case "draining":
      return "Try again in a moment.";
    case "closed":
      return "Check the server's log: the session log cannot be read or written.";
    case "no_terminal":
      return "Check that the host is reachable, then attach again.";
    default:
      if (status === 0) return "Check the server and your network. Reconnecting…";
      if (status >= 500) return "Check the server's log, then try again.";
      return "";
  }
}

/** The sentence of a response that is no success. */
export async function errorFromResponse(
  what: string,
  where: string,
  response: Response,
): Promise<RequestError> {
  let why = `the server returned ${response.status} ${response.statusText}`.trim();
  let code = "";
  try {
    const said: unknown = await response.json();
    if (typeof said === "object" && said !== null) {
      const { error, code: word } = said as { error?: unknown; code?: unknown };
      if (typeof error === "string") why = error;
      if (typeof word === "string") code = word;
    }
  } catch {
    // No JSON: something between here and the server answered.
  }
  if (response.status === 401 && !code) code = "unauthorized";
  return new RequestError(what, why, hintFor(response.status, code), response.status, code, where);
}

/** There was no answer at all. */
export function noResponse(what: string, where: string): RequestError {
  return new RequestError(what, "no response from the server", hintFor(0, ""), 0, "", where);
}
