/** The field in which a command is edited. It is as tall as its text, so that only the card can hide a part of it. */
import { type KeyboardEvent, useLayoutEffect, useRef, useState } from "react";

interface Props {
  text: string;
  /** True if the cursor begins at the start, and the card is scrolled to it. */
  fromStart: boolean;
  write(text: string): void;
  keys(event: KeyboardEvent): void;
}

export function EditField({ text, fromStart, write, keys }: Props) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [starts] = useState(fromStart);
  useLayoutEffect(() => {
    const { current } = field;
    if (!current) return;
    const place = starts ? 0 : current.value.length;
    current.setSelectionRange(place, place);
    current.focus({ preventScroll: starts });
    const body = current.closest(".card-body");
    if (starts && body) body.scrollTop = 0;
  }, [starts]);
  return (
    <div className="edit">
      <pre className="field">{text} </pre>
      <textarea
        ref={field}
        className="field"
        aria-label="Edited command"
        value={text}
        rows={1}
        spellCheck="false"
        autoCapitalize="off"
        autoComplete="off"
        onChange={(event) => write(event.target.value)}
        onKeyDown={keys}
      />
    </div>
  );
}
