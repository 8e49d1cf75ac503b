/** A session over server-sent events, with a POST for each message: where no WebSocket gets through. */
import type { ClientMessage, ErrorCode, ServerMessage } from "../wire";
import { ask, greetingOf, sessionPath } from "./api";
import { Problem } from "./problem";
import { type Connect, type Connection, parse } from "./transport";

/** Where a message is posted to, below its session; what has no place cannot be said this way. */
const PLACES: Partial<Record<ClientMessage["type"], string>> = {
  "user.message": "/messages",
  "approval.decision": "/decisions",
  "question.answer": "/questions",
  direct: "/direct",
  configure: "/configure",
  cancel: "/cancel",
  pause: "/pause",
  resume: "/resume",
  retry: "/retry",
  clear: "/clear",
  "terminal.input": "/terminal/input",
  "terminal.resize": "/terminal/resize",
  "terminal.release": "/terminal/release",
};
/** How long the stream may be silent: the server writes a comment every 15 s. */
const SILENCE_MS = 40_000;

/** Cuts a stream of events into the data of each, wherever its pieces were split. */
export class EventReader {
  private rest = "";
  private data: string[] = [];

  push(piece: string): string[] {
    const events: string[] = [];
    const lines = (this.rest + piece).split(/\r\n|\n|\r/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (this.data.length > 0) events.push(this.data.join("\n"));
        this.data = [];
      } else if (line.startsWith("data:")) {
        this.data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
    return events;
  }
}

export const openEvents: Connect = (id, resumeFrom, hooks) => {
  const stop = new AbortController();
  let worked = false;
  let silent: ReturnType<typeof setTimeout> | undefined;
  let timedOut = false;
  const heard = () => {
    clearTimeout(silent);
    silent = setTimeout(() => {
      timedOut = true;
      stop.abort();
    }, SILENCE_MS);
    hooks.alive();
  };
  /** The last event that is here whole, and whether the next one is here in part. */
  let latest = resumeFrom;
  let begun = false;
  /** How the live terminal is watched; not at all where there is nothing. */
  let watched: string | undefined;
  /** The stream that is read now. It is another one from when on the terminal is watched, or no longer. */
  let stream = new AbortController();
  let again = false;
  stop.signal.addEventListener("abort", () => stream.abort());
  const tell = (message: ServerMessage) => {
    worked = true;
    if ("seq" in message && message.seq !== undefined) {
      begun = message.more === true;
      if (!begun) latest = message.seq;
    }
    hooks.message(message);
  };
  const watch = (how: string | undefined) => {
    if (how === undefined && watched === undefined) return;
    watched = how;
    again = true;
    if (!begun) stream.abort();
  };

  const follow = async () => {
    const path = sessionPath(id, `/events?resumeFrom=${latest}${watched ?? ""}`);
    const response = await fetch(path, {
      credentials: "same-origin",
      headers: { accept: "text/event-stream" },
      signal: stream.signal,
    });
    if (!response.ok || !response.body) {
      throw new Problem(
        "The session could not be followed",
        response.statusText,
        "",
        response.status,
        "",
        path,
      );
    }
    heard();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const events = new EventReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      for (const data of events.push(value)) {
        const message = parse(data);
        if (message) tell(message);
      }
      if (again && !begun) stream.abort();
    }
  };
  const run = async () => {
    const greeting = await greetingOf(id);
    if (stop.signal.aborted) return;
    tell(greeting);
    for (;;) {
      again = false;
      stream = new AbortController();
      try {
        await follow();
      } catch (error) {
        if (!again) throw error;
      }
      if (!again || stop.signal.aborted) return;
    }
  };
  run()
    .then(() => ({ worked }))
    .catch((error: unknown) =>
      error instanceof Problem ? { worked, status: error.status || undefined, why: error.why } : { worked },
    )
    .then((ended) => {
      clearTimeout(silent);
      if (!stop.signal.aborted || timedOut) hooks.ended(ended);
    });

  // One after the other, so that keys and answers arrive in the order in which they were given.
  let last: Promise<void> = Promise.resolve();
  const send: Connection["send"] = (message) => {
    const place = PLACES[message.type];
    if (place === undefined) {
      if (message.type === "terminal.attach") {
        const { cols, rows } = message;
        watch(`&terminal=true${cols && rows ? `&cols=${cols}&rows=${rows}` : ""}`);
      } else if (message.type === "terminal.detach") {
        watch(undefined);
      }
      return true; // greetings and heartbeats have no meaning here
    }
    const { type: _, ...body } = message;
    const replyTo = "messageId" in message ? message.messageId : undefined;
    last = last
      .then(async () => {
        await ask("It was not sent", "POST", sessionPath(id, place), body);
      })
      .catch((error: unknown) => {
        if (stop.signal.aborted || !(error instanceof Problem)) return;
        if (error.status === 0 && message.type !== "question.answer") {
          stop.abort();
          hooks.ended({ worked, why: error.why }); // the link sends again what has to be sent again
        } else {
          hooks.message(refusal(id, error.why, (error.code || "internal") as ErrorCode, replyTo));
        }
      });
    return true;
  };
  return {
    kind: "events",
    send,
    close: () => {
      clearTimeout(silent);
      stop.abort();
    },
  };
};

function refusal(sessionId: string, message: string, code: ErrorCode, replyTo?: string): ServerMessage {
  return { type: "error", sessionId, message, code, replyTo };
}
