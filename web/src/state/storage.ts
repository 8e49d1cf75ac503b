/**
 * Browser storage: preferences in localStorage, state of this tab in sessionStorage. Never sessions, tokens or secret
 * answers.
 */
import type { Pending, QueuedPrompt } from "../protocol/outbox";
import type { PromptImage, SessionId } from "../wire";

function read(storage: () => Storage, key: string): string | undefined {
  try {
    return storage().getItem(key) ?? undefined;
  } catch {
    return undefined; // a browser that keeps nothing
  }
}

function write(storage: () => Storage, key: string, value: string): void {
  try {
    if (value) storage().setItem(key, value);
    else storage().removeItem(key);
  } catch {
    // Storage is full or forbidden; the page works without it.
  }
}

const local = () => localStorage;
const tab = () => sessionStorage;

export type ThemeChoice = "dark" | "light" | "system";

export function theme(): ThemeChoice {
  const kept = read(local, "sysop.theme");
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function saveTheme(choice: ThemeChoice): void {
  write(local, "sysop.theme", choice);
}

/** Font sizes of the terminal, in pixels. */
export const FONT_SIZES = [11, 12, 13, 14, 16, 18] as const;

export function terminalFontSize(): number {
  const kept = Number(read(local, "sysop.terminal.font"));
  return FONT_SIZES.find((size) => size === kept) ?? 13;
}

export function saveTerminalFontSize(pixels: number): void {
  write(local, "sysop.terminal.font", String(pixels));
}

/** True if the user hid the terminal, and undefined if the user has neither hidden nor shown it. */
export function terminalHidden(): boolean | undefined {
  const kept = read(local, "sysop.terminal.hidden");
  return kept === "yes" ? true : kept === "no" ? false : undefined;
}

export function saveTerminalHidden(hidden: boolean): void {
  write(local, "sysop.terminal.hidden", hidden ? "yes" : "no");
}

/** Width of the terminal that the user has chosen, in percent. */
export function split(): number | undefined {
  const kept = Number(read(local, "sysop.split"));
  return kept >= 15 && kept <= 85 ? kept : undefined;
}

export function saveSplit(hundredths: number | undefined): void {
  write(local, "sysop.split", hundredths === undefined ? "" : String(Math.round(hundredths)));
}

export function draft(id: SessionId): string {
  return read(tab, `sysop.draft.${id}`) ?? "";
}

export function saveDraft(id: SessionId, text: string): void {
  write(tab, `sysop.draft.${id}`, text);
}

/** Images of the draft. There may be more than a prompt can have. */
export function draftImages(id: SessionId): PromptImage[] {
  return readList(`sysop.images.${id}`);
}

export function saveDraftImages(id: SessionId, images: readonly PromptImage[]): void {
  write(tab, `sysop.images.${id}`, images.length > 0 ? JSON.stringify(images) : "");
}

/** Returns the text of a command that is being edited before its approval. */
export function editedCommand(id: SessionId, call: string): string | undefined {
  try {
    const kept: unknown = JSON.parse(read(tab, `sysop.edited.${id}`) ?? "[]");
    return Array.isArray(kept) && kept[0] === call && typeof kept[1] === "string" ? kept[1] : undefined;
  } catch {
    return undefined;
  }
}

/** Saves the text of a command that is being edited, of one call per session; undefined if no longer edited. */
export function saveEditedCommand(id: SessionId, call: string, text: string | undefined): void {
  write(tab, `sysop.edited.${id}`, text === undefined ? "" : JSON.stringify([call, text]));
}

function readList<T>(key: string): T[] {
  try {
    const kept: unknown = JSON.parse(read(tab, key) ?? "[]");
    return Array.isArray(kept) ? (kept as T[]) : [];
  } catch {
    return [];
  }
}

export function pendingPrompts(id: SessionId): Pending[] {
  return readList(`sysop.pending.${id}`);
}

/** Prompts of this tab in the session's queue. */
export function queuedPrompts(id: SessionId): QueuedPrompt[] {
  return readList(`sysop.queued.${id}`);
}

export function saveQueued(id: SessionId, queued: readonly QueuedPrompt[]): void {
  write(tab, `sysop.queued.${id}`, queued.length > 0 ? JSON.stringify(queued) : "");
}

export function savePending(id: SessionId, pending: readonly Pending[]): void {
  write(tab, `sysop.pending.${id}`, pending.length > 0 ? JSON.stringify(pending) : "");
}

export function clearedTo(id: SessionId): number {
  return Number(read(tab, `sysop.cleared.${id}`)) || 0;
}

export function saveClearedTo(id: SessionId, count: number): void {
  write(tab, `sysop.cleared.${id}`, count > 0 ? String(count) : "");
}

/** Sessions open in this browser tab. */
export function openTabs(): SessionId[] {
  return readList<unknown>("sysop.tabs").filter((id) => typeof id === "string");
}

export function saveOpenTabs(ids: readonly SessionId[]): void {
  write(tab, "sysop.tabs", ids.length > 0 ? JSON.stringify(ids) : "");
}
