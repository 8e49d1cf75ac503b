/** Two panes with a divider that moves by pointer and keyboard. */
import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  type RefObject,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import * as storage from "../state/storage";

const LEAST = 20;
const MOST = 80;
/** Minimum share of the terminal unless the user moves the divider, in percent. */
const SHARE_MIN = 40;
/** Columns that the terminal gets if the conversation keeps its width. */
const COLUMNS = 80;
/** Minimum width that the conversation keeps beside those columns, in pixels. */
const CONVERSATION_PX = 480;
/** Width of a column by font size: no usual font has wider ones. */
const COLUMN_EM = 0.61;
/** Padding and scroll bar of the terminal, in pixels. */
const BESIDE_COLUMNS_PX = 32;

/** Returns the share of the terminal in both panes' width, unless the user moves the divider, in percent. */
export function defaultShare(width: number, fontSize: number): number {
  if (width <= 0) return SHARE_MIN;
  const wanted = COLUMNS * COLUMN_EM * fontSize + BESIDE_COLUMNS_PX;
  const share = (Math.min(wanted, width - CONVERSATION_PX) / width) * 100;
  return Math.min(MOST, Math.max(SHARE_MIN, share));
}

/** Returns the width of an element, and 0 before its first layout. */
function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const { current } = element;
    if (!current) return;
    const measure = () => setWidth(current.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

interface Props {
  left: ReactNode;
  right: ReactNode;
  /** The only visible pane on a phone. */
  only: "left" | "right" | undefined;
  /** Font size of the terminal, in pixels. */
  fontSize: number;
}

export function SplitPane({ left, right, only, fontSize }: Props) {
  const [chosen, setChosen] = useState(storage.split);
  const whole = useRef<HTMLDivElement>(null);
  const width = useWidth(whole);
  const share = chosen ?? defaultShare(width, fontSize);
  const move = (hundredths: number) => setChosen(Math.min(MOST, Math.max(LEAST, hundredths)));
  const drag = (event: PointerEvent<HTMLDivElement>) => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const box = whole.current?.getBoundingClientRect();
    if (box && box.width > 0) move(((event.clientX - box.left) / box.width) * 100);
  };
  const keys = (event: KeyboardEvent) => {
    const step = event.shiftKey ? 10 : 2;
    const to = { ArrowLeft: share - step, ArrowRight: share + step, Home: LEAST, End: MOST }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = Math.min(MOST, Math.max(LEAST, to));
    move(next);
    storage.saveSplit(next);
  };
  return (
    <div className={`split ${only ? `only-${only}` : ""}`} ref={whole}>
      <div
        className="half left"
        style={only ? undefined : { flexBasis: `${share}%` }}
        inert={only === "right"}
      >
        {left}
      </div>
      <div
        className="divider"
        role="separator"
        aria-orientation="vertical"
        aria-label="Terminal width"
        aria-valuenow={Math.round(share)}
        aria-valuemin={LEAST}
        aria-valuemax={MOST}
        tabIndex={only ? -1 : 0}
        onKeyDown={keys}
        onPointerDown={(event) => {
          event.preventDefault();
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={drag}
        onPointerUp={(event) => {
          event.currentTarget.releasePointerCapture(event.pointerId);
          storage.saveSplit(chosen);
        }}
        onDoubleClick={() => {
          setChosen(undefined);
          storage.saveSplit(undefined);
        }}
      />
      <div className="half right" inert={only === "left"}>
        {right}
      </div>
    </div>
  );
}
