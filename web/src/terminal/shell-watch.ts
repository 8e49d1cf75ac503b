/** Tells when a shell ended together with its server, which cannot report that. */

export class ShellWatch {
  /** Server process of the open shell; undefined if no shell is open. */
  private server: string | undefined;

  /** Called when a screen arrives. Returns true if the shell that was open before ended with its server. */
  attached(server: string): boolean {
    const isLost = this.server !== undefined && this.server !== server;
    this.server = server;
    return isLost;
  }

  /** Called when the server reports the end of the shell. */
  ended(): void {
    this.server = undefined;
  }
}
