/** The part of a card that must be read before the card may run anything, with a cue while its end is out of view. */
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useLatest } from "../app/hooks";
import { Icon } from "../app/icons";

interface Props {
  children: ReactNode;
  /** Called with true once the end of the content has been in view, and before that with false. */
  read(toEnd: boolean): void;
}

/**
 * Nothing inside may scroll by itself, so that the card has a single place where its end can be hidden. The observer
 * counts whatever clips the mark: the card, the dock, and the window.
 */
export function ReadToEnd({ children, read }: Props) {
  const mark = useRef<HTMLSpanElement>(null);
  const [below, setBelow] = useState(false);
  const latest = useLatest(read);
  useEffect(() => {
    const { current } = mark;
    if (!current) return;
    const scroller = scrollerOf(current);
    if (typeof IntersectionObserver === "undefined") {
      latest.current(true);
      return;
    }
    const observer = new IntersectionObserver((entries) => {
      const entry = entries.at(-1);
      if (!entry) return;
      const { isIntersecting, boundingClientRect: box } = entry;
      const limit = scroller?.getBoundingClientRect().bottom ?? 0;
      setBelow(!isIntersecting && box.bottom > limit);
      latest.current(isIntersecting);
    });
    observer.observe(current);
    // A jump may pass the end, of which the observer does not tell.
    const passed = () => {
      const { width, bottom } = current.getBoundingClientRect();
      if (width === 0 || !scroller || bottom >= scroller.getBoundingClientRect().top) return;
      setBelow(false);
      latest.current(true);
    };
    scroller?.addEventListener("scroll", passed);
    return () => {
      observer.disconnect();
      scroller?.removeEventListener("scroll", passed);
    };
  }, [latest]);
  const cue = useRef<HTMLButtonElement>(null);
  const lines = useLinesBelow(mark, cue, below);
  return (
    <div className="to-read">
      {children}
      <span ref={mark} className="end-mark" aria-hidden="true" />
      {below && (
        <button
          ref={cue}
          type="button"
          className="cue"
          tabIndex={-1}
          onClick={() => scrollerOf(mark.current)?.scrollBy({ top: pageOf(scrollerOf(mark.current)) })}
        >
          <span>
            <Icon name="down" /> {lines === 1 ? "1 more line" : `${lines} more lines`}
          </span>
        </button>
      )}
    </div>
  );
}

/** Returns the number of lines between the middle of the cue, below which nothing can be read, and the end. */
function useLinesBelow(
  mark: { readonly current: HTMLElement | null },
  cue: { readonly current: HTMLElement | null },
  below: boolean,
): number {
  const [lines, setLines] = useState(1);
  useLayoutEffect(() => {
    const scroller = scrollerOf(mark.current);
    const text = mark.current?.parentElement?.querySelector("pre");
    if (!below || !scroller || !text) return;
    const count = () => {
      if (!mark.current || !cue.current) return;
      const { top, height } = cue.current.getBoundingClientRect();
      const gap = mark.current.getBoundingClientRect().bottom - (top + height / 2);
      setLines(Math.max(1, Math.round(gap / parseFloat(getComputedStyle(text).lineHeight))));
    };
    count();
    const observer = new ResizeObserver(count);
    observer.observe(scroller);
    scroller.addEventListener("scroll", count);
    return () => {
      observer.disconnect();
      scroller.removeEventListener("scroll", count);
    };
  }, [below, mark, cue]);
  return lines;
}

function scrollerOf(element: HTMLElement | null): HTMLElement | undefined {
  return element?.closest<HTMLElement>(".card-body") ?? undefined;
}

/** Returns the height of a page, with a line of overlap. */
function pageOf(scroller: HTMLElement | undefined): number {
  return Math.max(40, (scroller?.clientHeight ?? 0) - 48);
}

/** Scrolls the body of a card, whose focus is outside. Returns true if the key is one that scrolls. */
export function scrollByKey(body: HTMLElement | null, key: string): boolean {
  const page = pageOf(body ?? undefined);
  const steps: Record<string, number> = {
    ArrowDown: 40,
    ArrowUp: -40,
    PageDown: page,
    PageUp: -page,
    " ": page,
  };
  const top = steps[key];
  if (!body || top === undefined) return false;
  body.scrollBy({ top });
  return true;
}
