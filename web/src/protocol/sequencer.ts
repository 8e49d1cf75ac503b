/** Delivers messages in order and once, across any number of connections. */
import type { ServerMessage } from "../wire";

/** Action for a message. */
export type SequenceAction = "take" | "drop" | "gap";

/**
 * One event may consist of several messages with the same `seq`; all but the last have `more`. If the connection breaks
 * between them, the next one sends the event again from its first message, and messages already delivered are dropped.
 */
export class Sequencer {
  /** Last complete event, which is the resume point. */
  complete = 0;
  /** Event received in part; 0 if none. */
  private begun = 0;
  /** Number of its messages that were processed. */
  private taken = 0;
  /** Number of its messages received over this connection. */
  private came = 0;
  /** Position of a gap in the log; it is requested only once. */
  private gapAt = -1;

  /** A new connection begins, which sends everything after `complete`. */
  reconnected(): void {
    this.came = 0;
  }

  judge(message: ServerMessage): SequenceAction {
    if (!("seq" in message) || message.seq === undefined) return "take";
    const { seq } = message;
    if (seq <= this.complete) return "drop";
    if (seq > this.complete + 1 && this.gapAt !== this.complete) {
      this.gapAt = this.complete;
      return "gap";
    }
    if (seq !== this.begun) {
      this.begun = seq;
      this.taken = 0;
      this.came = 0;
    }
    this.came += 1;
    const news = this.came > this.taken;
    if (news) this.taken = this.came;
    if (!message.more) {
      this.complete = seq;
      this.begun = 0;
    }
    return news ? "take" : "drop";
  }
}
