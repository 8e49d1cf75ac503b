/** Marks the places that a search found in the rows on screen, and brings one of them into view. */
import { type Hit, PART_SELECTORS, type Part } from "./find-text";

/** Elements whose text is not that of the one before. */
const BLOCKS = "p, li, th, td, pre, h3, blockquote, figure, .row-line, .told";
/** Elements whose text is not part of a message. */
const CONTROLS = "button, figcaption, .visually-hidden";
/** Distance from an edge of a box within which text counts as out of view, in pixels. */
const EDGE_PX = 8;

const HIT = "find-hit";
const CURRENT_HIT = "find-current";

/** Returns the ranges of a row's part that the expression finds. */
export function rangesIn(row: Element, part: Part, expression: RegExp): Range[] {
  return [...row.querySelectorAll(PART_SELECTORS[part])].flatMap((element) => rangesOf(element, expression));
}

function rangesOf(element: Element, expression: RegExp): Range[] {
  const nodes: { node: Text; from: number }[] = [];
  let text = "";
  let block: Element | null | undefined;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const { parentElement, data } = node as Text;
    if (parentElement?.closest(CONTROLS)) continue;
    const around = parentElement?.closest(BLOCKS);
    if (block !== undefined && around !== block) text += "\n";
    block = around ?? null;
    nodes.push({ node: node as Text, from: text.length });
    text += data;
  }
  return [...text.matchAll(expression)].flatMap(({ 0: { length }, index }) => {
    const first = nodes.findLast(({ from }) => from <= index);
    const last = nodes.findLast(({ from }) => from < index + length);
    if (!first || !last) return [];
    const range = document.createRange();
    range.setStart(first.node, Math.min(index - first.from, first.node.length));
    range.setEnd(last.node, Math.min(index + length - last.from, last.node.length));
    return [range];
  });
}

/** A row on screen, and the parts of its item. */
export interface DrawnRow {
  id: string;
  element: Element;
  parts: readonly Part[];
}

/**
 * Marks all hits in these rows, and the current one in another color: by the browser's highlights, or else its row.
 * Returns the range of the current hit, if it is on screen.
 */
export function mark(rows: readonly DrawnRow[], expression: RegExp, hit: Hit | undefined): Range | undefined {
  let current: Range | undefined;
  const others: Range[] = [];
  for (const { id, element, parts } of rows) {
    for (const part of parts) {
      const ranges = rangesIn(element, part, expression);
      const isHere = hit?.row === id && hit.part === part;
      const place = isHere ? ranges[Math.min(hit.nth, ranges.length - 1)] : undefined;
      current ??= place;
      others.push(...ranges.filter((range) => range !== place));
    }
    const shows = "highlights" in CSS && current !== undefined;
    element.toggleAttribute("data-found", hit?.row === id && !shows);
  }
  if ("highlights" in CSS) {
    CSS.highlights.set(HIT, new Highlight(...others));
    CSS.highlights.set(CURRENT_HIT, new Highlight(...(current ? [current] : [])));
  }
  return current;
}

export function removeMarks(list: Element): void {
  for (const row of list.querySelectorAll("[data-found]")) row.removeAttribute("data-found");
  if (!("highlights" in CSS)) return;
  CSS.highlights.delete(HIT);
  CSS.highlights.delete(CURRENT_HIT);
}

/** Scrolls the boxes around a range until it is in view in the list. Returns true if that moved one of them. */
export function scrollIntoView(range: Range, list: Element): boolean {
  let moved = false;
  for (let box = range.startContainer.parentElement; box; box = box.parentElement) {
    if (box === list || box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1) {
      const { top, bottom, left, right, height } = range.getBoundingClientRect();
      const frame = box.getBoundingClientRect();
      const { scrollTop, scrollLeft } = box;
      if (top < frame.top + EDGE_PX || bottom > frame.bottom - EDGE_PX) {
        box.scrollTop += top - frame.top - (box.clientHeight - height) / 2;
      }
      if (left < frame.left || right > frame.right) box.scrollLeft += left - frame.left - box.clientWidth / 2;
      moved ||= box.scrollTop !== scrollTop || box.scrollLeft !== scrollLeft;
    }
    if (box === list) break;
  }
  return moved;
}
