/** The text that a call of a file tool, or of the tool for notes, would write. */

/** Edit requested from a file tool. */
export interface FileEdit {
  path: string;
  /** Replaced text; undefined if the whole file is written. */
  old: string | undefined;
  text: string;
}

/** Returns the edit of a call, if its arguments are complete. */
export function editOf(tool: string, args: unknown): FileEdit | undefined {
  if (typeof args !== "object" || args === null) return undefined;
  const { path, old_string: old, new_string: next, content } = args as Record<string, unknown>;
  if (typeof path !== "string") return undefined;
  if (tool === "edit_file" && typeof old === "string" && typeof next === "string") {
    return { path, old, text: next };
  }
  const writes = tool === "write_file" || tool === "write_file_chunk";
  return writes && typeof content === "string" ? { path, old: undefined, text: content } : undefined;
}

/** Returns true if the diff of an edit shows this argument of the call. Other arguments must be shown separately. */
export function showsArgument(name: string): boolean {
  return ["path", "old_string", "new_string", "content"].includes(name);
}

/** Returns the note that a call of `remember` would save, if its arguments are complete. */
export function noteOf(tool: string, args: unknown): string | undefined {
  const { text } = (args ?? {}) as { text?: unknown };
  return tool === "remember" && typeof text === "string" ? text : undefined;
}
