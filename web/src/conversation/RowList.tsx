/** The virtualized list of a conversation's rows. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useLatest, useSessionPart } from "../app/hooks";
import { Icon } from "../app/icons";
import type { SessionStore } from "../state/session-store";
import { FindBar } from "./FindBar";
import type { Hit } from "./find-text";
import { Found } from "./found";
import { JobsRead } from "./jobs-read";
import { RowView } from "./RowView";
import type { Row } from "./rows";
import { useVirtualRows } from "./virtual-rows";

/** Maximum distance from the end at which the list keeps following it, in pixels. */
const NEAR_PX = 48;
/** Height assumed for a row until it is measured, in pixels. */
const ESTIMATE_PX = 96;

const estimate = () => ESTIMATE_PX;
const never = () => false;

interface RowListProps {
  store: SessionStore;
  rows: Row[];
  /** Number of prompts sent from here; each scrolls to the end. */
  sends: number;
  empty: React.ReactNode;
  /** Called when the user has clicked Undo, whose button goes. */
  undone(): void;
  /** Job whose command the user asks for; another object for each request. */
  sought: { jobId: number } | undefined;
}

function isJob(row: Row, jobId: number): boolean {
  return row.kind === "item" && row.item.kind === "step" && row.item.job?.jobId === jobId;
}

/** The list of rows. The list follows its end until the user scrolls up, and again from the user's next prompt on. */
export function RowList({ store, rows, sends, empty, undone, sought }: RowListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [away, setAway] = useState(false);
  const [unread, setUnread] = useState(0);
  const seen = useRef(rows.length);
  // A new function makes the list measure all rows again, so this one changes only when the rows do.
  const latestRows = useLatest(rows);
  // biome-ignore lint/correctness/useExhaustiveDependencies: these change when rows are added or removed
  const keyOf = useCallback(
    (at: number) => latestRows.current[at]?.id ?? at,
    [rows.length, rows[0]?.id, rows.at(-1)?.id],
  );
  const virtual = useVirtualRows({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: estimate,
    getItemKey: keyOf,
    overscan: 8,
  });
  // Measuring rows above must not move the visible text; while the list follows its end, the end stays in place.
  const settle = () => {
    virtual.shouldAdjustScrollPositionOnItemSizeChange = follows.current ? never : undefined;
  };
  settle();
  const isEmpty = rows.every(({ kind }) => kind === "earlier");
  /** The empty state is read from its beginning. */
  const toEnd = useLatest(() => {
    const { current } = scroller;
    if (current && follows.current && !isEmpty) current.scrollTop = current.scrollHeight;
  });
  const total = virtual.getTotalSize();
  // The rows are in normal flow between two spacers, so that a row that grows cannot cover the next one.
  const drawn = virtual.getVirtualItems();
  const showAll = useCallback(() => store.showAll(), [store]);
  const undo = useCallback(
    (call: string) => {
      store.undoStep(call);
      undone();
    },
    [store, undone],
  );

  // biome-ignore lint/correctness/useExhaustiveDependencies: whatever makes the list longer moves its end
  useLayoutEffect(() => {
    toEnd.current();
  }, [total, rows]);

  // The dock below grows and shrinks, and a hidden tab has no size.
  useEffect(() => {
    const { current } = scroller;
    if (!current) return;
    const observer = new ResizeObserver(() => toEnd.current());
    observer.observe(current);
    return () => observer.disconnect();
  }, [toEnd]);

  useEffect(() => {
    if (follows.current) seen.current = rows.length;
    else setUnread(Math.max(0, rows.length - seen.current));
  }, [rows.length]);

  const sent = useRef(sends);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a prompt jumps, not a new function
  useLayoutEffect(() => {
    if (sent.current !== sends) jump();
    sent.current = sends;
  }, [sends]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a request scrolls once, not each new row
  useLayoutEffect(() => {
    const at = rows.findLastIndex((row) => sought && isJob(row, sought.jobId));
    if (at < 0) return;
    follows.current = false;
    settle();
    setAway(true);
    virtual.scrollToIndex(at, { align: "start" });
  }, [sought]);

  const find = useSessionPart(store, (view) => view.find);
  const jobsRead = useSessionPart(store, (view) => view.jobsRead);
  const [hit, setHit] = useState<Hit>();
  useFindKey(store);
  const reveal = (index: number) => {
    follows.current = false;
    settle();
    setAway(true);
    virtual.scrollToIndex(index, { align: "center" });
  };
  const firstInView = () => {
    const top = scroller.current?.scrollTop ?? 0;
    return rows[virtual.getVirtualItems().find(({ end }) => end > top)?.index ?? 0]?.id;
  };

  const last = useRef({ top: 0, height: 0 });
  /** Time until which scrolling counts as the user's, because measuring rows also scrolls the list. */
  const ownUntil = useRef(0);
  const own = (ms: number) => () => {
    ownUntil.current = performance.now() + ms;
  };
  const scrolled = () => {
    const { current } = scroller;
    if (!current || isEmpty) return;
    const { scrollTop, scrollHeight, clientHeight } = current;
    const gap = scrollHeight - scrollTop - clientHeight;
    const { top, height } = last.current;
    last.current = { top: scrollTop, height: scrollHeight };
    if (gap < NEAR_PX) follows.current = true;
    else if (scrollTop < top && (height === scrollHeight || performance.now() < ownUntil.current)) {
      follows.current = false;
    }
    settle();
    if (follows.current) {
      seen.current = rows.length;
      setUnread(0);
    }
    setAway(!follows.current);
  };
  const jump = () => {
    follows.current = true;
    settle();
    setAway(false);
    setUnread(0);
    const { current } = scroller;
    if (current) current.scrollTop = current.scrollHeight;
  };

  return (
    <div className="list">
      {find && (
        <FindBar
          store={store}
          find={find}
          rows={rows}
          scroller={scroller}
          reveal={reveal}
          arrived={() => {
            virtual.cancelScroll();
            follows.current = false;
            scrolled();
          }}
          firstInView={firstInView}
          onHit={setHit}
        />
      )}
      <section
        className="scroller"
        ref={scroller}
        onScroll={scrolled}
        onWheel={own(500)}
        onTouchMove={own(3_000)}
        onKeyDown={own(1_000)}
        onPointerDown={own(15_000)}
        tabIndex={0}
        aria-label="Messages"
      >
        <div style={{ paddingTop: drawn[0]?.start ?? 0, paddingBottom: total - (drawn.at(-1)?.end ?? 0) }}>
          <Found value={find && (hit ?? "none")}>
            <JobsRead value={jobsRead}>
              {drawn.map(({ index, key }) => {
                const row = rows[index];
                return (
                  row && (
                    <div key={key} data-index={index} ref={virtual.measureElement} className="row">
                      <RowView row={row} session={store.id} showAll={showAll} undo={undo} />
                    </div>
                  )
                );
              })}
            </JobsRead>
          </Found>
        </div>
        {isEmpty && empty}
      </section>
      {away && (
        <button type="button" className="jump" onClick={jump}>
          <Icon name="down" /> Jump to latest{unread > 0 && ` (${unread} new)`}
        </button>
      )}
    </div>
  );
}

/** Ctrl+F in the conversation opens the search; in its field, the key is the browser's own. */
function useFindKey(store: SessionStore): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { target, key, ctrlKey, metaKey, altKey, shiftKey } = event;
      if (event.defaultPrevented || key.toLowerCase() !== "f" || !(ctrlKey || metaKey) || altKey || shiftKey)
        return;
      if (!(target instanceof Element && target.closest(".conversation")) || target.closest(".find, dialog"))
        return;
      event.preventDefault();
      store.find({ words: "", ofList: false });
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [store]);
}
