/** The draft of a prompt: its text and its images. */
import type { PromptImage } from "../wire";

/** Maximum images per prompt, as on the server. */
export const IMAGES_MAX = 8;

/** Place in the draft at which text is added. */
export type DraftPlace = "start" | "end";

/** Returns the draft with more text, on lines of its own. */
export function addedTo(draft: string, text: string, place: DraftPlace): string {
  if (!text) return draft;
  if (!draft.trim()) return text;
  return place === "end" ? `${draft}\n${text}` : `${text}\n${draft}`;
}

/** Returns the images with more of them, each once, and the number of those that are too many. */
export function addedImages(
  images: readonly PromptImage[],
  more: readonly PromptImage[],
): { images: readonly PromptImage[]; excess: number } {
  const all = [...new Map([...images, ...more].map((image) => [image.artifact, image])).values()];
  return { images: all.slice(0, IMAGES_MAX), excess: Math.max(0, all.length - IMAGES_MAX) };
}
