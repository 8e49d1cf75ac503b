/** The composer: prompt with the current mode, and a draft that survives a reload. */
import {
  type KeyboardEvent,
  type Ref,
  useCallback,
  useId,
  useImperativeHandle,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { useLatest } from "../app/hooks";
import { Icon } from "../app/icons";
import type { Pending } from "../protocol/outbox";
import type { CommandName } from "../state/commands";
import { addedTo } from "../state/draft";
import { fromTerminal, type SessionStore } from "../state/session-store";
import * as storage from "../state/storage";
import { oneLine } from "../text/neutralize";
import { AttachFile, ImageChips, type Upload, usePromptImages } from "./PromptImages";
import { useSettled } from "./settled";
import { WRITING } from "./writing";

export interface ComposerHandle {
  focus(): void;
  /** Takes the focus unless there is a draft. */
  focusIfEmpty(): void;
  /** Takes the focus, and types text at its cursor. */
  write(text: string): void;
  /** Types text at its cursor, and leaves the focus where it is. */
  insert(text: string): void;
  /** Attaches or uploads files. */
  addFiles(files: File[]): void;
}

/** A proposal that a message rejects. */
interface Proposal {
  call: string;
  /** Rejects the proposal with a message to the model; see `isYes`. */
  reject(message: string): void;
}

interface Props {
  store: SessionStore;
  /** Label before the text: `agent:/>`. */
  prompt: string;
  placeholder: string;
  pending: readonly Pending[];
  typed: readonly string[];
  queued: readonly string[];
  /** Those of `queued` that this tab sent and can take back. */
  ownQueued: readonly string[];
  online: boolean;
  running: boolean;
  /** True if a message ends the paused turn. */
  endsTurn: boolean;
  /** The proposal that waits; undefined if none can be answered here. */
  proposal: Proposal | undefined;
  /** Uploads a file that is not an image; undefined if that is not allowed. */
  upload: Upload | undefined;
  /** Earlier prompts, newest last; recalled with Arrow Up. */
  history: () => string[];
  /** Returns the commands that complete the text. */
  complete: (text: string) => readonly CommandName[];
  /** Screen and scrollback of the live terminal; undefined if the session has none. */
  buffer: (() => string) | undefined;
  ref?: Ref<ComposerHandle>;
}

/** Maximum lines of terminal output to attach; the newest are kept. */
const ATTACHED_LINES_MAX = 200;
/** Maximum lines to which the field grows automatically. */
const ROWS_MAX = 10;

/** Returns true for a message that cannot mean a rejection. It leads back to the proposal. */
export function isYes(message: string): boolean {
  return /^(y|yes)$/i.test(message.trim());
}

export function Composer(props: Props) {
  const {
    store,
    prompt,
    placeholder,
    pending,
    typed,
    queued,
    ownQueued,
    online,
    running,
    endsTurn,
    proposal,
    upload,
    history,
    complete,
    buffer,
    ref,
  } = props;
  const field = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(() => storage.draft(store.id));
  const attached = usePromptImages(store, upload);
  const isEmpty = text === "" && attached.images.length === 0 && attached.uploading === 0;
  const sendable = (text.trim() !== "" || attached.images.length > 0) && attached.uploading === 0;
  // A command is none of the model's business, and an image cannot be part of an answer.
  const answers = proposal !== undefined && attached.images.length === 0 && !/^\s*[!/]/.test(text);
  const rejects = answers && sendable && !isYes(text);
  const settled = useSettled(proposal?.call ?? "");
  /** Call of the proposal that had only just appeared when the user sent a message. */
  const [early, setEarly] = useState<string>();
  /** Position in the history that Arrow Up and Arrow Down have reached. */
  const recalled = useRef<number | undefined>(undefined);
  const [chosen, setChosen] = useState(0);
  /** Text for which the user closed the command list. */
  const [closed, setClosed] = useState<string>();
  const list = useId();
  const fitting = text === closed ? [] : complete(text);
  const offered = fitting.filter(({ name }) => name !== text);
  const current = offered[Math.min(chosen, offered.length - 1)];
  const change = (next: string) => {
    setChosen(0);
    setEarly(undefined);
    setText(next);
    storage.saveDraft(store.id, next);
  };
  const latestChange = useLatest(change);
  const latestAdd = useLatest(attached.add);
  /** Types text at the cursor, at once, because the next key is typed into the field itself. */
  const insert = useCallback(
    (more: string) => {
      const { current } = field;
      if (!current) return;
      current.setRangeText(more, current.selectionStart, current.selectionEnd, "end");
      latestChange.current(current.value);
    },
    [latestChange],
  );

  useImperativeHandle(
    ref,
    () => ({
      focus: () => field.current?.focus(),
      focusIfEmpty: () => {
        if (field.current?.value === "") field.current.focus();
      },
      write: (more) => {
        field.current?.focus();
        insert(more);
      },
      insert,
      addFiles: (files) => latestAdd.current(files),
    }),
    [insert, latestAdd],
  );
  // Before anything else can add to the draft, which otherwise would only be stored.
  useLayoutEffect(
    () =>
      store.onDraft((more, _images, place) => {
        if (!more) return;
        setText((before) => {
          const next = addedTo(before, more, place);
          storage.saveDraft(store.id, next);
          return next;
        });
        // Text may also come from the server: a refused prompt, or the end of a turn that somebody else stopped.
        if (!document.activeElement?.matches(`${WRITING}, input`)) field.current?.focus();
      }),
    [store],
  );
  useLayoutEffect(() => {
    const { current } = field;
    if (!current) return;
    if (text === "") {
      // One row needs no measuring, which would lay out the whole page before its first frame.
      current.style.height = "";
      return;
    }
    const setHeight = () => {
      current.style.height = "auto";
      const line = Number.parseFloat(getComputedStyle(current).lineHeight) || 20;
      current.style.height = `${Math.min(current.scrollHeight, line * ROWS_MAX + 16)}px`;
    };
    setHeight();
    let width = current.clientWidth;
    const observer = new ResizeObserver(() => {
      if (current.clientWidth === width) return;
      width = current.clientWidth;
      setHeight();
    });
    observer.observe(current);
    return () => observer.disconnect();
  }, [text]);

  const send = () => {
    if (!sendable) return;
    if (answers && !settled) {
      // The user wrote the message for the queue, before the proposal could be read.
      setEarly(proposal.call);
      return;
    }
    recalled.current = undefined;
    change("");
    if (answers) proposal.reject(text.trim());
    else store.say(text.trim(), attached.take());
  };
  const take = ({ name, arguments: wanted }: CommandName) => {
    change(wanted ? `${name} ` : name);
    field.current?.focus();
  };
  /** Handles keys of the command list. Returns true if the key was handled. */
  const listKeys = (event: KeyboardEvent<HTMLTextAreaElement>): boolean => {
    if (!current) return false;
    // Enter sends a name that is complete, even if it begins another one.
    const completes = event.key === "Tab" || (event.key === "Enter" && offered.length === fitting.length);
    if (completes && !event.shiftKey) {
      if (!event.repeat) take(current);
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const at = offered.indexOf(current) + (event.key === "ArrowUp" ? -1 : 1);
      setChosen((at + offered.length) % offered.length);
    } else if (event.key === "Escape") {
      setClosed(text);
    } else {
      return false;
    }
    event.preventDefault();
    return true;
  };
  const keys = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing || listKeys(event)) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      // A key that is held down answered a proposal, which then gave the focus to the prompt.
      if (!event.repeat) send();
    } else if (event.key === "Escape" && running && online && isEmpty && !event.repeat) {
      event.preventDefault();
      store.stop();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const before = history();
      const browsing = recalled.current !== undefined && before[recalled.current] === text;
      if (text !== "" && !browsing) return;
      const at =
        (browsing ? (recalled.current ?? before.length) : before.length) + (event.key === "ArrowUp" ? -1 : 1);
      if (at < 0 || (at >= before.length && !browsing)) return;
      event.preventDefault();
      recalled.current = at < before.length ? at : undefined;
      change(before[at] ?? "");
    }
  };
  return (
    <form
      className="composer"
      {...attached.handlers}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {(pending.length > 0 || typed.length > 0 || queued.length > 0) && (
        <ul className="waiting" aria-label="Queued prompts">
          {queued.map((waits, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a queue may contain the same text twice
            <li key={`q${at}`}>
              <span className="tag">queued</span> <span className="text">{oneLine(waits)}</span>
              {ownQueued.includes(waits) && online && (
                <button
                  type="button"
                  title="Take this message back to edit it"
                  onClick={() => store.withdraw(waits)}
                >
                  Edit
                </button>
              )}
            </li>
          ))}
          {pending.map(({ messageId, content }) => (
            <li key={messageId}>
              <span className="tag">{online ? "sending" : "waiting for the connection"}</span>{" "}
              <span className="text">{oneLine(content)}</span>
              {!online && (
                <button
                  type="button"
                  onClick={() => {
                    const back = store.link.takeBack(messageId);
                    if (back !== undefined) store.appendToDraft(back);
                  }}
                >
                  Cancel
                </button>
              )}
            </li>
          ))}
          {typed.map((waits, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the same text may be typed twice
            <li key={`t${at}`}>
              <span className="tag">sending</span> <span className="text">{oneLine(waits)}</span>
            </li>
          ))}
        </ul>
      )}
      {current && (
        <div className="offered" id={list} role="listbox" aria-label="Commands">
          {offered.map((command) => (
            <div
              key={command.name}
              id={`${list}${command.name}`}
              role="option"
              tabIndex={-1}
              aria-selected={command === current}
              onMouseDown={(event) => {
                event.preventDefault();
                take(command);
              }}
            >
              <b>{oneLine(command.name)}</b> {oneLine(command.arguments)}{" "}
              <span>{oneLine(command.description)}</span>
            </div>
          ))}
        </div>
      )}
      {rejects && early === proposal.call && (
        <p className="meta" role="status">
          A proposal has just appeared. Enter again rejects it with this message.
        </p>
      )}
      <ImageChips attached={attached} />
      <label className="prompt-line">
        <span className="ps">{prompt}</span>
        <textarea
          ref={field}
          rows={1}
          value={text}
          placeholder={placeholder}
          aria-label="Describe a task"
          aria-autocomplete="list"
          aria-controls={current ? list : undefined}
          aria-activedescendant={current ? `${list}${current.name}` : undefined}
          spellCheck
          onChange={(event) => change(event.target.value)}
          onKeyDown={keys}
        />
        <AttachFile attached={attached} uploads={upload !== undefined} disabled={!online} />
        {buffer && (
          <button
            type="button"
            className="icon attach"
            title="Attach the terminal screen"
            aria-label="Attach the terminal screen"
            onClick={() => {
              const lines = buffer().trimEnd().split("\n").slice(-ATTACHED_LINES_MAX).join("\n");
              if (lines.trim()) store.appendToDraft(fromTerminal(lines));
            }}
          >
            <Icon name="attach" />
          </button>
        )}
        <button
          type="submit"
          className="primary send"
          disabled={!sendable}
          title={rejects ? "Reject the proposal with this message" : undefined}
        >
          {!running || endsTurn ? "Send" : rejects ? "Reject" : answers && isYes(text) ? "Review" : "Queue"}
          {endsTurn && <span className="word"> and end turn</span>}
        </button>
      </label>
    </form>
  );
}
