/** Errors between the page and its server, for display: what failed, why, and what to do. */

/** A failed request. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  constructor(
    /** Failed action, such as `Sessions could not be listed`. */
    readonly what: string,
    /** Message of the server, or the reason why there was no answer. */
    readonly why: string,
    /** Hint for the user. */
    readonly hint: string,
    /** HTTP status; 0 without an answer. */
    readonly status: number,
    /** Error code of the server. */
    readonly code: string,
    /** Method and path of the request. */
    readonly where: string,
  ) {
    super(`${what}: ${why}`);
  }
}

/** Reason of a request that the server refused for want of a valid token. */
export const SIGNED_OUT = "this browser is no longer signed in";

/** Reasons why a session has no connection: it was open here and is gone, or the server does not know its id. */
export const DELETED = "the session was deleted";
export const NO_SESSION = "this server has no such session";

/** Hint for this kind of problem; empty if its message already contains one. */
export function hintFor(status: number, code: string): string {
  switch (code) {
    case "unauthorized":
      return "Reload the page to sign in again.";
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
      return "Start a new session.";
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

/** Builds the error of an unsuccessful response. */
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
    // Not JSON: something between the page and the server answered.
  }
  if (response.status === 401 && !code) code = "unauthorized";
  if (code === "unauthorized") why = SIGNED_OUT;
  return new RequestError(what, why, hintFor(response.status, code), response.status, code, where);
}

/** Builds the error of a request without a response. */
export function noResponse(what: string, where: string): RequestError {
  return new RequestError(what, "no response from the server", hintFor(0, ""), 0, "", where);
}
