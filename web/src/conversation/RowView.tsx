/** One row of a conversation. */

import { memo, useState } from "react";
import { asSubject, useName } from "../app/me";
import type { Item, Notice } from "../state/item";
import { SafeText } from "../text/Code";
import { CodeSpans } from "../text/CodeSpans";
import { CopyButton } from "../text/CopyButton";
import { usage } from "../text/labels";
import { Markdown } from "../text/Markdown";
import { neutralize } from "../text/neutralize";
import type { SessionId } from "../wire";
import type { Row } from "./rows";
import { StepCard } from "./StepCard";

interface Props {
  row: Row;
  session: SessionId;
  showAll(): void;
  undo(call: string): void;
}

export const RowView = memo(({ row, session, showAll, undo }: Props) => {
  switch (row.kind) {
    case "earlier":
      return (
        <div className="earlier">
          {row.count > 0 && (
            <button type="button" onClick={showAll}>
              Show earlier messages ({row.count})
            </button>
          )}
          {row.dropped > 0 && (
            <span>
              <CodeSpans text={`${row.dropped} older items not shown; see \`sysop sessions show\``} />
            </span>
          )}
        </div>
      );
    case "item":
      return <ItemView item={row.item} session={session} undo={undo} />;
  }
});

function ItemView({ item, session, undo }: { item: Item; session: SessionId; undo(call: string): void }) {
  switch (item.kind) {
    case "prompt":
      return <Prompt text={item.text} sender={item.named ? item.by : undefined} />;
    case "answer":
      return <Answer text={item.text} whole={item.state !== "streaming"} broken={item.state === "broken"} />;
    case "reasoning":
      return <Reasoning text={item.text} streaming={item.state === "streaming"} />;
    case "step":
      return <StepCard step={item} session={session} undo={undo} />;
    case "complete":
      return (
        <article className="card complete" aria-label="Task complete">
          <p className="tag">
            <span aria-hidden="true">✓</span> Task complete
          </p>
          <Markdown text={item.text} whole />
        </article>
      );
    case "notice":
      return <NoticeLine notice={item} />;
    case "cleared":
      return null;
    case "end":
      return <End item={item} />;
  }
}

function NoticeLine({ notice: { text, weight, by } }: { notice: Notice }) {
  const nameOf = useName();
  return (
    <p className={`notice ${weight}`}>
      {by !== undefined && `${asSubject(nameOf(by))} `}
      <CodeSpans text={text} />
    </p>
  );
}

function Prompt({ text, sender }: { text: string; sender: string | undefined }) {
  const nameOf = useName();
  const name = sender === undefined ? undefined : nameOf(sender);
  return (
    <article className="prompt" aria-label={name ?? "You"}>
      {name !== undefined && <p className="sender">{name}</p>}
      <p>
        <SafeText text={text} />
      </p>
    </article>
  );
}

function Answer({ text, whole, broken = false }: { text: string; whole: boolean; broken?: boolean }) {
  return (
    <article className={`answer ${whole ? "" : "streaming"}`} aria-label="The model" aria-busy={!whole}>
      <Markdown text={text} whole={whole} />
      {broken && <p className="notice warning">Reply incomplete</p>}
      {whole && text.length > 200 && (
        <div className="answer-tools">
          <CopyButton text={text} label="Copy answer" />
        </div>
      )}
    </article>
  );
}

function Reasoning({ text, streaming }: { text: string; streaming: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <details className="reasoning" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{streaming ? "thinking…" : "reasoning"}</summary>
      {open && <pre>{neutralize(text)}</pre>}
    </details>
  );
}

function End({ item }: { item: Extract<Item, { kind: "end" }> }) {
  const tokens = usage(item.usage);
  const calls = item.iterations === 1 ? "1 model call" : `${item.iterations} model calls`;
  if (item.reason === "cancelled") return <p className="end">stopped</p>;
  if (item.reason === "paused") {
    return <p className="end">stopped: a prompt or a command came while the turn was paused</p>;
  }
  if (item.reason === "end_turn" && !item.error) {
    return <p className="end">{tokens ? `${calls} · tokens: ${tokens}` : calls}</p>;
  }
  const limit = `stopped after ${item.iterations} model calls; send \`continue\`, or raise max_iterations`;
  const why =
    item.error ??
    { max_iterations: limit, failed: "the turn failed", end_turn: "" }[item.reason] ??
    item.reason;
  return (
    <article className="card error" aria-label="Error">
      <span className="tag">
        <span aria-hidden="true">✗</span> Error:
      </span>{" "}
      <CodeSpans text={why} />
    </article>
  );
}
