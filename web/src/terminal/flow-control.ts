/**
 * Flow control for terminal output. If drawing falls behind, the server is told to stop; once the buffered output is
 * drawn, a snapshot of the current screen is requested. A flood of output thus never accumulates or blocks the page.
 */

/** Maximum characters waiting to be drawn. */
export const WAITING_MAX = 1024 * 1024;

/** Actions of the flow control. */
export interface FlowHooks {
  /** Draws data, then calls `done`. */
  write(data: string, done: () => void): void;
  /** Tells the server to send no more. */
  stop(): void;
  /** Requests a snapshot and all output after it. `first` is true for the first request on this connection. */
  ask(first: boolean): void;
}

/**
 * `idle`: nothing was requested. `asked`: output before the snapshot is dropped. `live`: output is drawn. `behind`: the
 * server was told to stop, and output in flight is dropped.
 */
type FlowPhase = "idle" | "asked" | "live" | "behind";

export class FlowControl {
  private phase: FlowPhase = "idle";
  private waiting = 0;
  /** Number of the current connection, so that late callbacks of earlier ones are ignored. */
  private connection = 0;

  constructor(private readonly hooks: FlowHooks) {}

  /** Called on connect: requests a snapshot. */
  connected(): void {
    this.connection += 1;
    this.ask(true);
  }

  /** Called on disconnect. */
  lost(): void {
    this.connection += 1;
    this.phase = "idle";
  }

  /** True while a requested snapshot has not arrived. */
  get waitsForSnapshot(): boolean {
    return this.phase === "asked";
  }

  /** True if new output should be drawn; a snapshot of the screen replaces skipped output. */
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
