/** Finds text in the terminal. */
import { type KeyboardEvent, useLayoutEffect, useRef, useState } from "react";
import type { TerminalSession } from "./terminal-session";

export function SearchBox({ attached, onClose }: { attached: TerminalSession; onClose(): void }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState("");
  const box = useRef<HTMLInputElement>(null);
  // Before the next key, which is meant for the search.
  useLayoutEffect(() => {
    box.current?.focus();
    const end = attached.onResults((at, of) => setFound(of === 0 ? "not found" : `${at + 1} of ${of}`));
    return () => {
      end();
      attached.endSearch();
    };
  }, [attached]);
  const typed = (wanted: string) => {
    setText(wanted);
    if (wanted === "") {
      attached.endSearch();
      setFound("");
    } else {
      attached.find(wanted, "typed");
    }
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Escape") onClose();
    else if (event.key === "Enter" && text !== "") attached.find(text, event.shiftKey ? "previous" : "next");
    else return;
    event.preventDefault();
  };
  return (
    <search className="terminal-search">
      <input
        ref={box}
        type="text"
        aria-label="Search terminal"
        placeholder="Search"
        spellCheck="false"
        value={text}
        onChange={(event) => typed(event.target.value)}
        onKeyDown={pressed}
      />
      <span role="status">{found}</span>
      <button type="button" aria-label="Previous" onClick={() => attached.find(text, "previous")}>
        ↑
      </button>
      <button type="button" aria-label="Next" onClick={() => attached.find(text, "next")}>
        ↓
      </button>
      <button type="button" aria-label="Close search" onClick={onClose}>
        ×
      </button>
    </search>
  );
}
