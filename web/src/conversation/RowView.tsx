/** One row of a conversation. */

import { memo } from "react";
import { asSubject, useMachine, useName } from "../app/me";
import type { Item, Notice } from "../state/item";
import { SafeText } from "../text/Code";
import { CodeSpans } from "../text/CodeSpans";
import { CopyButton } from "../text/CopyButton";
import { usage } from "../text/labels";
import { Markdown } from "../text/Markdown";
import { neutralize } from "../text/neutralize";
import { noticeText } from "../text/notices";
import type { SessionId } from "../wire";
import { endText } from "./end-text";
import { useUnfolded } from "./found";
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
      return <Reasoning id={item.id} text={item.text} streaming={item.state === "streaming"} />;
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

function NoticeLine({ notice }: { notice: Notice }) {
  const { weight, by } = notice;
  const nameOf = useName();
  const machine = useMachine();
  return (
    <p className={`notice ${weight}`}>
      {by !== undefined && `${asSubject(nameOf(by))} `}
      <span className="said">
        <CodeSpans text={noticeText(notice, machine)} />
      </span>
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

function Reasoning({ id, text, streaming }: { id: string; text: string; streaming: boolean }) {
  const [open, setOpen] = useUnfolded(id, "reasoning");
  return (
    <details className="reasoning" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{streaming ? "thinking…" : "reasoning"}</summary>
      {open && <pre>{neutralize(text)}</pre>}
    </details>
  );
}

function End({ item }: { item: Extract<Item, { kind: "end" }> }) {
  const machine = useMachine();
  const text = endText(item, machine);
  const { reason, error } = item;
  if (reason === "cancelled" || reason === "paused") return <p className="end said">{text}</p>;
  if (reason === "end_turn" && !error) {
    const tokens = usage(item.usage);
    const calls = item.iterations === 1 ? "1 model call" : `${item.iterations} model calls`;
    return (
      <>
        {text !== undefined && (
          <p className="end missed">
            <span aria-hidden="true">✗</span> <span className="said">{text}</span>
          </p>
        )}
        <p className="end">{tokens ? `${calls} · tokens: ${tokens}` : calls}</p>
      </>
    );
  }
  return (
    <article className="card error" aria-label="Error">
      <span className="tag">
        <span aria-hidden="true">✗</span> Error:
      </span>{" "}
      <span className="said">
        <CodeSpans text={text ?? ""} />
      </span>
    </article>
  );
}
