/** Announces events to screen readers: politely, and not every word of a stream. */
import { useEffect, useRef, useState } from "react";
import { useLatest } from "../app/hooks";
import { asSubject, useMachine, useName } from "../app/me";
import type { Item } from "../state/item";
import type { SessionView } from "../state/session-store";
import { withoutFences } from "../text/CodeSpans";
import { noteOf } from "../text/file-edit";
import { outcomeLabel } from "../text/host-results";
import { approvalWords, hostLabel } from "../text/labels";
import { neutralizeLine, oneLine } from "../text/neutralize";
import { noticeText } from "../text/notices";
import { sentences } from "../text/sentences";

/** Minimum time between announcements. */
const EVERY_MS = 1_500;
/** Maximum characters of an announcement. */
const SAID_MAX = 400;

export function Announcer({ view }: { view: SessionView }) {
  const [said, say] = useState("");
  const latest = useLatest(view);
  const nameOf = useLatest(useName());
  const machine = useLatest(useMachine());
  const known = useRef<{ items: number; last: Item | undefined }>(undefined);
  useEffect(() => {
    // Only items that arrive after the history are announced.
    if (view.caughtUp) known.current ??= seen(view);
  }, [view]);
  useEffect(() => {
    const timer = setInterval(() => {
      const { transcript, caughtUp } = latest.current;
      const before = known.current;
      if (!caughtUp || !before) return;
      const { items: count, last } = seen(latest.current);
      known.current = { items: count, last };
      if (count === before.items && last === before.last) return;
      const news = transcript.items.slice(Math.max(0, before.items - transcript.dropped - 1));
      const words = news
        .filter((item) => item !== before.last)
        .map((item) => wordsOf(item, transcript.facts?.host ?? "", machine.current, nameOf.current))
        .filter(Boolean);
      if (words.length > 0) say(sentences(words.slice(-4)));
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [latest, machine, nameOf]);
  return (
    <div className="visually-hidden" role="status" aria-live="polite" aria-atomic="true">
      {said}
    </div>
  );
}

function seen({ transcript }: SessionView): { items: number; last: Item | undefined } {
  return { items: transcript.dropped + transcript.items.length, last: transcript.items.at(-1) };
}

function wordsOf(
  item: Item,
  host: string,
  machine: string | undefined,
  nameOf: (name: string) => string,
): string {
  switch (item.kind) {
    case "answer":
      return item.state === "streaming" ? "" : oneLine(item.text).slice(0, SAID_MAX);
    case "complete":
      return `Task complete: ${oneLine(item.text).slice(0, SAID_MAX)}`;
    case "step":
      if (item.outcome) return `${neutralizeLine(item.tool)}: ${outcomeLabel(item.outcome)}`;
      if (item.decided.state === "waiting") {
        const what = noteOf(item.tool, item.arguments) ?? item.command;
        return `${approvalWords(item, hostLabel(host, machine)).question}? ${neutralizeLine(what).slice(0, SAID_MAX)}`;
      }
      return `Runs ${neutralizeLine(item.command).slice(0, SAID_MAX)}`;
    case "notice":
      return oneLine(
        `${item.by === undefined ? "" : `${asSubject(nameOf(item.by))} `}${withoutFences(noticeText(item, machine))}`,
      ).slice(0, SAID_MAX);
    case "end":
      if (item.reason === "cancelled") return "Stopped";
      if (item.error) return `Error: ${oneLine(item.error).slice(0, SAID_MAX)}`;
      return item.missed === undefined
        ? "The turn ended"
        : `The turn ended, but was not done on ${hostLabel(item.missed, machine)}`;
    default:
      return "";
  }
}
