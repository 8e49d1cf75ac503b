/** Takes what comes in order and once, over any number of connections. It decides nothing else. */
import type { ServerMessage } from "../wire";

/** What is to become of a message. */
export type SequenceAction = "take" | "drop" | "gap";

/**
 * One event may give several messages with one `seq`; all but the last say `more`. A connection may break between
 * them: the next one then sends the event again from its first message on, and what was taken of it is dropped.
 */
export class Sequencer {
  /** The last event of which all is here: the point to resume from. */
  complete = 0;
  /** The event of which a part is here; 0 where there is none. */
  private begun = 0;
  /** How many messages of it were taken, ever. */
  private taken = 0;
  /** How many messages of it came over this connection. */
  private came = 0;
  /** The point at which the log went on without an event; asked for once only. */
  private gapAt = -1;

  /** Another connection begins, which sends everything after `complete`. */
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
