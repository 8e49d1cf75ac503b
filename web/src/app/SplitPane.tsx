/** Two panes with a divider that moves by pointer and keyboard. */
import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef, useState } from "react";
import * as storage from "../state/storage";

const LEAST = 20;
const MOST = 80;

interface Props {
  left: ReactNode;
  right: ReactNode;
  /** The only visible pane on a phone. */
  only: "left" | "right" | undefined;
}

export function SplitPane({ left, right, only }: Props) {
  const [share, setShare] = useState(storage.split);
  const whole = useRef<HTMLDivElement>(null);
  const move = (hundredths: number) => setShare(Math.min(MOST, Math.max(LEAST, hundredths)));
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
          storage.saveSplit(share);
        }}
        onDoubleClick={() => {
          move(storage.SPLIT_DEFAULT);
          storage.saveSplit(storage.SPLIT_DEFAULT);
        }}
      />
      <div className="half right" inert={only === "left"}>
        {right}
      </div>
    </div>
  );
}
