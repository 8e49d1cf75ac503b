/** Finds text in a conversation, of which only the rows in view are elements that the browser could search. */
import {
  type KeyboardEvent,
  type RefObject,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { useLatest } from "../app/hooks";
import { Icon } from "../app/icons";
import { useMachine } from "../app/me";
import type { Item } from "../state/item";
import type { OpenFind, SessionStore } from "../state/session-store";
import "./find.css";
import { mark, removeMarks, scrollIntoView } from "./find-marks";
import { finderOf, findHits, type Hit, isOutputPartial, type Part, partsOf } from "./find-text";
import { type Row, rowsOf } from "./rows";

/** Frames in which the current hit must stay in view until it counts as shown, and within which it must be. */
const STABLE_FRAMES = 3;
const FRAMES_MAX = 120;
/** The page has only parts of a truncated output. */
const NO_MATCHES_IN_PARTS = "No matches; truncated output not searched";

interface Props {
  store: SessionStore;
  find: OpenFind;
  rows: readonly Row[];
  scroller: RefObject<HTMLElement | null>;
  /** Scrolls to a row. */
  reveal(index: number): void;
  /** Ends scrolling to a row, because it is there. */
  arrived(): void;
  /** Id of the first row in view. */
  firstInView(): string | undefined;
  /** Called with the hit that is shown. */
  onHit(hit: Hit | undefined): void;
}

export function FindBar({ store, find, rows, scroller, reveal, arrived, firstInView, onHit }: Props) {
  const { words, ofList } = find;
  const machine = useMachine();
  /** The hit that is shown; the hits of a text that is being written move no view. */
  const [chosen, setChosen] = useState<{ words: string; hit: Hit | undefined }>();
  const field = useRef<HTMLInputElement>(null);
  /** Row from which on the first hit is shown, unless the newest one is. */
  const from = useRef(firstInView());
  const all = useMemo(
    () => (rows.length === 0 ? [] : rowsOf({ ...store.snapshot(), showsAll: true })),
    [rows, store],
  );
  const finder = useMemo(() => finderOf(words), [words]);
  const hits = useMemo(
    () => finder && findHits(all, finder, ofList, machine),
    [all, finder, ofList, machine],
  );
  const known = chosen?.words === words ? chosen.hit : undefined;
  const at = hits ? hitAt(hits.all, known, all, ofList ? undefined : from.current) : -1;
  const hit = hits?.all[at];
  useFieldFocus(field, find, store);
  useMarks({ store, machine, rows, all, scroller, reveal, arrived, hit, expression: hits?.found });
  const told = useLatest(onHit);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a hit is the same if it is at the same place
  useLayoutEffect(() => told.current(hit), [hit?.row, hit?.part]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  useLayoutEffect(() => setChosen({ words, hit }), [hit?.row, hit?.part, hit?.nth, words, ofList]);
  const step = (by: number) => {
    const { length } = hits?.all ?? [];
    if (length) setChosen({ words, hit: hits?.all[(at + by + length) % length] });
  };
  const typed = (text: string) => {
    from.current = hit?.row ?? from.current;
    store.changeFind({ words: text, ofList: false });
  };
  const close = () => store.closeFind();
  const keys = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && event.target === field.current) step(event.shiftKey ? -1 : 1);
    else return;
    event.preventDefault();
  };
  useNextKey(step);
  const count = hits?.all.length ?? 0;
  const lacksOutput = hits !== undefined && count === 0 && all.some(isOutputPartial);
  return (
    <search className="find" onKeyDown={keys}>
      <input
        ref={field}
        type="text"
        className="field"
        aria-label="Find in this conversation"
        placeholder="Find"
        spellCheck="false"
        autoComplete="off"
        enterKeyHint="search"
        value={words}
        onChange={(event) => typed(event.target.value)}
      />
      <span role="status" className={lacksOutput ? "long" : undefined}>
        {!hits ? "" : count > 0 ? `${at + 1} of ${count}` : lacksOutput ? NO_MATCHES_IN_PARTS : "No matches"}
      </span>
      <button
        type="button"
        className="icon up"
        aria-label="Previous match"
        title="Previous match (Shift+Enter)"
        disabled={count === 0}
        onClick={() => step(-1)}
      >
        <Icon name="down" />
      </button>
      <button
        type="button"
        className="icon"
        aria-label="Next match"
        title="Next match (Enter, F3)"
        disabled={count === 0}
        onClick={() => step(1)}
      >
        <Icon name="down" />
      </button>
      <button type="button" className="icon" aria-label="Close find" title="Close (Esc)" onClick={close}>
        <Icon name="close" />
      </button>
    </search>
  );
}

/** Index of the chosen hit, or else of the first one from a row on, or else of the newest one. */
function hitAt(
  hits: readonly Hit[],
  chosen: Hit | undefined,
  rows: readonly Row[],
  from: string | undefined,
): number {
  if (chosen) {
    const same = hits.findIndex(
      ({ row, part, nth }) => row === chosen.row && part === chosen.part && nth === chosen.nth,
    );
    if (same >= 0) return same;
  }
  const start = rows.findIndex(({ id }) => id === from);
  const later = new Set(start < 0 ? [] : rows.slice(start).map(({ id }) => id));
  const first = hits.findIndex(({ row }) => later.has(row));
  return first >= 0 ? first : hits.length - 1;
}

/** Gives the focus to the field at each request, and back when the search ends. */
function useFieldFocus(
  field: RefObject<HTMLInputElement | null>,
  { isNew, ofList }: OpenFind,
  store: SessionStore,
): void {
  const [before] = useState(() => document.activeElement);
  useLayoutEffect(() => {
    if (!isNew) return;
    store.changeFind({ isNew: false });
    // On a touch screen, the focus would open the keyboard over the hit.
    if (ofList && matchMedia("(pointer: coarse)").matches) return;
    field.current?.focus();
    field.current?.select();
  }, [isNew, ofList, field, store]);
  useLayoutEffect(() => {
    const { current } = field;
    return () => {
      const isHere = document.activeElement === current || document.activeElement === document.body;
      const composer = current?.closest(".conversation")?.querySelector<HTMLElement>(".composer textarea");
      const back = before instanceof HTMLElement && before !== document.body && before.isConnected;
      if (isHere) (back ? before : composer)?.focus();
    };
  }, [field, before]);
}

/** F3 and Shift+F3 anywhere in the conversation. */
function useNextKey(step: (by: number) => void): void {
  const latest = useLatest(step);
  useEffect(() => {
    const pressed = (event: globalThis.KeyboardEvent) => {
      const { key, target, shiftKey } = event;
      if (key !== "F3" || !(target instanceof Element && target.closest(".conversation"))) return;
      event.preventDefault();
      latest.current(shiftKey ? -1 : 1);
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [latest]);
}

interface Marks extends Pick<Props, "store" | "rows" | "scroller" | "reveal" | "arrived"> {
  machine: string | undefined;
  all: readonly Row[];
  hit: Hit | undefined;
  expression: RegExp | undefined;
}

function partNames(item: Item, machine: string | undefined): Part[] {
  return [...new Set(partsOf(item, machine).map(({ part }) => part))];
}

/** Marks the hits in the rows on screen, and brings the current one into view. */
function useMarks(marks: Marks): void {
  const latest = useLatest(marks);
  /** True until the current hit is in view, or the user scrolls. */
  const pending = useRef(false);
  const { hit, scroller, store } = marks;
  const [tools] = useState(() => ({
    markAll: (): Range | undefined => {
      const { machine, rows, scroller, expression, hit } = latest.current;
      if (!scroller.current || !expression) return undefined;
      const drawn = [...scroller.current.querySelectorAll(".row[data-index]")].flatMap((element) => {
        const row = rows[Number(element.getAttribute("data-index"))];
        const parts = row?.kind === "item" ? partNames(row.item, machine) : [];
        return row ? [{ id: row.id, element, parts }] : [];
      });
      return mark(drawn, expression, hit);
    },
    bring: (frames: number, stable: number): void => {
      const { rows, scroller, hit, reveal, arrived } = latest.current;
      const list = scroller.current;
      if (!pending.current || !list || !hit) return;
      const index = rows.findIndex(({ id }) => id === hit.row);
      const row = list.querySelector(`.row[data-index="${index}"]`);
      let isThere = false;
      if (row) {
        arrived();
        const range = tools.markAll();
        if (range) isThere = !scrollIntoView(range, list);
        else row.scrollIntoView({ block: "nearest" });
      } else if (index >= 0) {
        reveal(index);
      }
      const seen = isThere ? stable + 1 : 0;
      pending.current = seen < STABLE_FRAMES && frames < FRAMES_MAX;
      if (pending.current) requestAnimationFrame(() => tools.bring(frames + 1, seen));
    },
  }));
  const isHidden = hit !== undefined && !marks.rows.some(({ id }) => id === hit.row);
  useLayoutEffect(() => {
    if (isHidden) store.showAll();
  }, [isHidden, store]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each other hit is brought into view once
  useLayoutEffect(() => {
    pending.current = hit !== undefined;
    tools.bring(0, 0);
  }, [hit?.row, hit?.part, hit?.nth, marks.expression?.source]);
  useLayoutEffect(() => {
    if (marks.expression) tools.markAll();
    else if (scroller.current) removeMarks(scroller.current);
  });
  useLayoutEffect(() => {
    const { current } = scroller;
    if (!current) return;
    const observer = new MutationObserver(() => void tools.markAll());
    observer.observe(current, { subtree: true, childList: true, characterData: true });
    const leave = () => {
      pending.current = false;
    };
    const gestures = ["wheel", "touchmove", "pointerdown", "keydown"];
    for (const gesture of gestures) current.addEventListener(gesture, leave, { passive: true });
    return () => {
      leave();
      observer.disconnect();
      for (const gesture of gestures) current.removeEventListener(gesture, leave);
      removeMarks(current);
    };
  }, [scroller, tools]);
}
