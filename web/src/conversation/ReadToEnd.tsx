/** The part of a card that must be read before the card may run anything, with a cue while its end is out of view. */
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useLatest } from "../app/hooks";
import { Icon } from "../app/icons";

interface Props {
  children: ReactNode;
  /** Identifies the content; a change of it must be read again. */
  of: string;
  /** Called with true once the end of this content has been in view, and before that with false. */
  read(of: string, toEnd: boolean): void;
  /** Called with the number of pages that are below the view, while the end has not been in view. */
  pagesLeft(pages: number): void;
}

/** Place of the end of a content; `passed` by a jump, `outside` if it is above the view or has no layout. */
type EndPlace = "in_view" | "below" | "behind_dock" | "passed" | "outside";

/**
 * Tells the place of the end of a content, whose last element is `mark`, whenever it changes. A change of `of` is new
 * content.
 */
function useEndPlace(
  mark: { readonly current: HTMLElement | null },
  of: string,
  tell: (place: EndPlace, of: string) => void,
): void {
  const latest = useLatest(tell);
  // Before the next frame, which shows the content: the earlier observer would take it for what was there before.
  useLayoutEffect(() => {
    const { current } = mark;
    if (!current) return;
    const scroller = scrollerOf(current);
    if (typeof IntersectionObserver === "undefined") {
      latest.current("in_view", of);
      return;
    }
    const observer = new IntersectionObserver((entries) => {
      const entry = entries.at(-1);
      if (!entry) return;
      const { isIntersecting, boundingClientRect: box } = entry;
      const place = box.width > 0 ? placeAfter(current, box.bottom) : undefined;
      latest.current(isIntersecting ? "in_view" : (place ?? "outside"), of);
    });
    observer.observe(current);
    // A jump may pass the end, up or down, of which the observer does not tell.
    const scrolled = () => {
      const { width, top, bottom } = current.getBoundingClientRect();
      if (width === 0 || !scroller) return;
      const isAbove = bottom < scroller.getBoundingClientRect().top;
      // An end of which a part is in view is left to the observer.
      const place = isAbove ? "passed" : placeAfter(current, top);
      if (place) latest.current(place, of);
    };
    scroller?.addEventListener("scroll", scrolled);
    return () => {
      observer.disconnect();
      scroller?.removeEventListener("scroll", scrolled);
    };
  }, [latest, mark, of]);
}

/** Tells what hides `edge`, an edge of the end `mark`, if it is after the view of the card or of the dock. */
function placeAfter(mark: Element, edge: number): "below" | "behind_dock" | undefined {
  const { bottom } = scrollerOf(mark)?.getBoundingClientRect() ?? { bottom: 0 };
  if (edge > bottom) return "below";
  return edge > bottomOf(mark.closest(".dock")) ? "behind_dock" : undefined;
}

/**
 * Nothing inside may scroll by itself, so that the card has a single place where its end can be hidden. The observer
 * counts whatever clips the mark: the card, the dock, and the window.
 */
export function ReadToEnd({ children, of, read, pagesLeft }: Props) {
  const mark = useRef<HTMLSpanElement>(null);
  const [below, setBelow] = useState(false);
  /** True if the end is within the card, but the dock hides it. */
  const [beyond, setBeyond] = useState(false);
  useEndPlace(mark, of, (place, seen) => {
    setBelow(place === "below");
    setBeyond(place === "behind_dock");
    read(seen, place === "in_view" || place === "passed");
  });
  const cue = useRef<HTMLButtonElement>(null);
  const { lines, pages } = useRestBelow(mark, cue, below);
  const tellPages = useLatest(pagesLeft);
  useEffect(() => tellPages.current(pages), [pages, tellPages]);
  return (
    <div className={`to-read ${beyond ? "beyond" : ""}`}>
      {children}
      <span ref={mark} className="end-mark" aria-hidden="true" />
      {below && (
        <button
          ref={cue}
          type="button"
          className="cue"
          tabIndex={-1}
          onClick={() => scrollByKey(scrollerOf(mark.current), "PageDown")}
        >
          <span>
            <Icon name="down" /> {lines === 1 ? "1 more line" : `${lines} more lines`}
          </span>
        </button>
      )}
    </div>
  );
}

interface EndBelowProps {
  children: ReactNode;
  /** Called with true while the end of the content is below the view of the card, and otherwise with false. */
  tell(below: boolean): void;
}

/** A part of a card that need not be read before the card may run anything. */
export function EndBelow({ children, tell }: EndBelowProps) {
  const mark = useRef<HTMLSpanElement>(null);
  const latest = useLatest(tell);
  useEndPlace(mark, "", (place) => tell(place === "below"));
  useLayoutEffect(() => () => latest.current(false), [latest]);
  return (
    <div className="with-end">
      {children}
      <span ref={mark} className="end-mark" aria-hidden="true" />
    </div>
  );
}

/** The part of the content that is below the view. */
interface Rest {
  /** Lines between the middle of the cue, below which nothing can be read, and the end. */
  lines: number;
  /** Pages to scroll until the end is in view. */
  pages: number;
}

const NEXT_IS_LAST: Rest = { lines: 1, pages: 1 };

function useRestBelow(
  mark: { readonly current: HTMLElement | null },
  cue: { readonly current: HTMLElement | null },
  below: boolean,
): Rest {
  const [rest, setRest] = useState(NEXT_IS_LAST);
  useLayoutEffect(() => {
    const scroller = scrollerOf(mark.current);
    // An undo has a plan in plain lines.
    const content = mark.current?.parentElement;
    const text = content?.querySelector("pre, p, textarea") ?? content;
    if (!below || !scroller || !content || !text) return;
    const count = () => {
      if (!mark.current || !cue.current) return;
      const { top, height } = cue.current.getBoundingClientRect();
      const end = mark.current.getBoundingClientRect().bottom;
      const hidden = (end - (top + height / 2)) / parseFloat(getComputedStyle(text).lineHeight);
      const lines = Math.max(1, Math.round(hidden));
      const pages = Math.max(1, Math.ceil((end - bottomOf(scroller)) / pageOf(scroller)));
      setRest((before) => (before.lines === lines && before.pages === pages ? before : { lines, pages }));
    };
    count();
    const observer = new ResizeObserver(count);
    observer.observe(scroller);
    observer.observe(content);
    scroller.addEventListener("scroll", count);
    return () => {
      observer.disconnect();
      scroller.removeEventListener("scroll", count);
    };
  }, [below, mark, cue]);
  return below ? rest : NEXT_IS_LAST;
}

function bottomOf(element: Element | null): number {
  return element?.getBoundingClientRect().bottom ?? Number.POSITIVE_INFINITY;
}

function scrollerOf(element: Element | null): HTMLElement | undefined {
  return element?.closest<HTMLElement>(".card-body") ?? undefined;
}

/** Returns the height of a page, with a line of overlap. */
function pageOf(scroller: HTMLElement | undefined): number {
  return Math.max(40, (scroller?.clientHeight ?? 0) - 48);
}

/** Scrolls the body of a card, whose focus is outside. Returns true if the key is one that scrolls. */
export function scrollByKey(body: HTMLElement | null | undefined, key: string): boolean {
  const page = pageOf(body ?? undefined);
  const whole = body?.scrollHeight ?? 0;
  const steps: Record<string, number> = {
    ArrowDown: 40,
    ArrowUp: -40,
    PageDown: page,
    PageUp: -page,
    " ": page,
    End: whole,
    Home: -whole,
  };
  const top = steps[key];
  if (!body || top === undefined) return false;
  body.scrollBy({ top });
  // Where the card is at its end, the dock may still hide it.
  const atEnd = body.scrollTop + body.clientHeight >= body.scrollHeight - 1;
  if (top > 0 && atEnd) body.querySelector(".end-mark")?.scrollIntoView({ block: "nearest" });
  return true;
}
