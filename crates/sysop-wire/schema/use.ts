// Compiled, never run: what a page may write with the types of the messages, and what it may not.
import type { ClientMessage, ServerMessage, SessionState } from "../../../web/src/wire";

type Of<Kind extends ServerMessage["type"]> = Extract<ServerMessage, { type: Kind }>;

export function line(message: ServerMessage): string {
  switch (message.type) {
    case "tool.call":
      return `${message.toolCallId} ${message.name} ${message.run === true} ${typeof message.arguments}`;
    case "assistant.done": {
      const tokens: number = message.metadata.usage.inputTokens + message.metadata.usage.outputTokens;
      return `${message.metadata.stopReason} ${tokens}`;
    }
    case "approval.request":
      return message.covers && "exact" in message.covers ? message.covers.exact.command : message.command;
    case "terminal.typed":
      return "keys" in message.typed ? message.typed.keys.text : "";
    case "error":
      return `${message.message} ${message.code === "stale"} ${(message.seq ?? 0) + 1}`;
    case "session.created":
      return message.lent?.tools.map((tool) => tool.name).join() ?? "";
    case "heartbeat":
      // @ts-expect-error: a heartbeat is of no session
      return message.sessionId;
    default:
      // @ts-expect-error: other messages have other fields
      return message.toolCallId;
  }
}

export const state = (message: Of<"state">): SessionState => message.state;

export const sent: ClientMessage[] = [
  { type: "hello", clientVersion: "page", resumeFrom: 4 },
  { type: "tool.result", toolCallId: "c", output: "" },
  { type: "approval.decision", toolCallId: "c", decision: "allow_session" },
  { type: "direct", command: "uptime", origin: "typed" },
  { type: "cancel" },
  // @ts-expect-error: there is no such decision
  { type: "approval.decision", toolCallId: "c", decision: "maybe" },
  // @ts-expect-error: a prompt has words
  { type: "user.message" },
  // @ts-expect-error: there is no such message
  { type: "teleport" },
];
