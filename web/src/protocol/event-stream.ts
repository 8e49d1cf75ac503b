/** A session over server-sent events and POST, used if WebSockets are blocked. */
import type { ClientMessage, ErrorCode, ServerMessage } from "../wire";
import { fetchGreeting, request, sessionPath } from "./api";
import { errorFromResponse, RequestError } from "./request-error";
import { type Connection, type OpenConnection, parse } from "./transport";

/** Endpoints of the messages, relative to the session; messages without one cannot be sent over HTTP. */
const POST_PATHS: Partial<Record<ClientMessage["type"], string>> = {
  "user.message": "/messages",
  "prompt.withdraw": "/messages/withdraw",
  "approval.decision": "/decisions",
  "approval.preview": "/previews",
  "question.answer": "/questions",
  direct: "/direct",
  configure: "/configure",
  cancel: "/cancel",
  pause: "/pause",
  resume: "/resume",
  retry: "/retry",
  clear: "/clear",
  compact: "/compact",
  "tool.background": "/background",
  "job.stop": "/jobs/stop",
  "terminal.input": "/terminal/input",
  "terminal.resize": "/terminal/resize",
  "terminal.release": "/terminal/release",
};
/** Maximum silence of the stream; the server sends a comment every 15 s. */
const SILENCE_MS = 40_000;

/** One event of a stream. */
export interface StreamEvent {
  data: string;
  /** Resume point, if the event is one. */
  id: string | undefined;
}

/** Parses a stream of events from chunks split at any position. */
export class EventStreamParser {
  private rest = "";
  private data: string[] = [];
  private id: string | undefined;

  push(piece: string): StreamEvent[] {
    const events: StreamEvent[] = [];
    const lines = (this.rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (this.data.length > 0) events.push({ data: this.data.join("\n"), id: this.id });
        this.data = [];
        this.id = undefined;
      } else if (line.startsWith("data:")) {
        this.data.push(line.slice(line[5] === " " ? 6 : 5));
      } else if (line.startsWith("id:")) {
        this.id = line.slice(3).trim();
      }
    }
    return events;
  }
}

export const openEventStream: OpenConnection = (id, resumeFrom, hooks) => {
  const over = new AbortController();
  let worked = false;
  /** The current stream; replaced when the terminal is attached or detached. */
  let stream = new AbortController();
  let place = resumeFrom;
  let terminal: { cols?: number; rows?: number; scrollback?: number } | undefined;
  let changes = false;
  let silent: ReturnType<typeof setTimeout> | undefined;
  const finish = (why: { status?: number; why?: string }) => {
    if (over.signal.aborted) return;
    clearTimeout(silent);
    over.abort();
    stream.abort();
    hooks.ended({ worked, ...why });
  };
  const heard = () => {
    clearTimeout(silent);
    silent = setTimeout(() => finish({ why: "no response from the server" }), SILENCE_MS);
    hooks.alive();
  };
  const tell = (message: ServerMessage) => {
    worked = true;
    hooks.message(message);
  };

  const follow = async (signal: AbortSignal) => {
    const asked = new URLSearchParams({ resumeFrom: String(place) });
    if (terminal) {
      asked.set("terminal", "true");
      if (terminal.cols && terminal.rows) {
        asked.set("cols", String(terminal.cols));
        asked.set("rows", String(terminal.rows));
      }
      if (terminal.scrollback) asked.set("scrollback", String(terminal.scrollback));
    }
    const path = sessionPath(id, `/events?${asked}`);
    const headers = { accept: "text/event-stream" };
    const response = await fetch(path, { credentials: "same-origin", headers, signal });
    if (!response.ok || !response.body)
      throw await errorFromResponse("Cannot follow the session", path, response);
    heard();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const events = new EventStreamParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (signal.aborted) return;
      if (done) return finish({});
      heard();
      for (const event of events.push(value)) {
        if (event.id) place = Number(event.id);
        const message = parse(event.data);
        if (message) tell(message);
      }
    }
  };
  const failed = (error: unknown) => {
    if (error instanceof RequestError) finish({ status: error.status || undefined, why: error.why });
    else finish({});
  };
  const followAnew = () => {
    changes = false;
    if (over.signal.aborted) return;
    stream.abort();
    stream = new AbortController();
    const { signal } = stream;
    hooks.again();
    follow(signal).catch((error: unknown) => {
      if (!signal.aborted) failed(error);
    });
  };
  fetchGreeting(id).then((greeting) => {
    if (over.signal.aborted) return;
    // Open the stream first: a subscriber that gets the greeting may watch the terminal, which opens another stream.
    followAnew();
    tell(greeting);
  }, failed);

  // Sent one after the other, so that keys and answers arrive in the order in which they were given.
  let last: Promise<void> = Promise.resolve();
  const send: Connection["send"] = (message) => {
    if (message.type === "terminal.attach" || message.type === "terminal.detach") {
      terminal = message.type === "terminal.attach" ? message : undefined;
      // Users who leave the terminal often return immediately.
      if (!changes) queueMicrotask(followAnew);
      changes = true;
      return true;
    }
    const where = POST_PATHS[message.type];
    if (where === undefined) return true; // greetings and heartbeats have no meaning here
    const { type: _, ...body } = message;
    const replyTo = "messageId" in message ? message.messageId : undefined;
    last = last
      .then(async () => {
        if (!over.signal.aborted) await request("Message not sent", "POST", sessionPath(id, where), body);
      })
      .catch((error: unknown) => {
        if (over.signal.aborted || !(error instanceof RequestError)) return;
        if (error.status === 0 && message.type === "user.message") {
          finish({ why: error.why }); // the link sends it again
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
      over.abort();
      stream.abort();
    },
  };
};

function refusal(sessionId: string, message: string, code: ErrorCode, replyTo?: string): ServerMessage {
  return { type: "error", sessionId, message, code, replyTo };
}
