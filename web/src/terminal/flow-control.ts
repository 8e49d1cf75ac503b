/**
 * What a terminal printed, on its way to the screen. A screen that is behind asks the server to stop and, once it has
 * drawn what it has, for a picture of how things are by then: a flood never piles up here, and never holds the page up.
 */

/** Characters that may wait to be drawn. */
export const WAITING_MAX = 1024 * 1024;

/** What the flow does to the world. */
export interface FlowHooks {
  /** Draws; `done` is called once that is so. */
  write(data: string, done: () => void): void;
  /** Tells the server to send no more. */
  stop(): void;
  /** Asks the server for a picture, and for all that comes after it; for the first time on this connection, or again. */
  ask(first: boolean): void;
}

/**
 * `idle`: nothing was asked for. `asked`: what comes before the picture is of the past. `live`: what comes is drawn.
 * `behind`: the server was told to stop, and what is still on its way is of the past.
 */
type FlowPhase = "idle" | "asked" | "live" | "behind";

export class FlowControl {
  private phase: FlowPhase = "idle";
  private waiting = 0;
  /** Counts the connections, so that a late call of an earlier one does nothing. */
  private connection = 0;

  constructor(private readonly hooks: FlowHooks) {}

  /** The connection is there: begins with a picture. */
  connected(): void {
    this.connection += 1;
    this.ask(true);
  }

  /** The connection is gone. */
  lost(): void {
    this.connection += 1;
    this.phase = "idle";
  }

  /** Whether what comes now is to be drawn: a picture ends what was before it. */
  takes(reset: boolean): boolean {
    if (this.phase === "asked" && reset) this.phase = "live";
    return this.phase === "live";
  }

  /** Draws a piece. */
  push(data: string): void {
    const connection = this.connection;
    this.waiting += data.length;
    this.hooks.write(data, () => {
      this.waiting -= data.length;
      if (this.phase === "behind" && this.waiting === 0 && connection === this.connection) this.ask(false);
    });
    if (this.phase === "live" && this.waiting > WAITING_MAX) {
      this.phase = "behind";
      this.hooks.stop();
    }
  }

  private ask(first: boolean): void {
    this.phase = "asked";
    this.hooks.ask(first);
  }
}
