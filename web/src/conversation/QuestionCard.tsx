/**
 * Prompt of a program: a password, a passphrase, a host key confirmation. The input stays in the field until it is
 * sent; it is never part of a component's state, stored or logged.
 */
import { type FormEvent, useEffect, useRef } from "react";
import type { SessionStore } from "../state/session-store";
import { neutralize, neutralizeLine } from "../text/neutralize";
import type { Question } from "../wire";

interface Props {
  store: SessionStore;
  question: Question;
  online: boolean;
}

export function QuestionCard({ store, question, online }: Props) {
  const field = useRef<HTMLInputElement>(null);
  const { id, kind, from, details, prompt } = question;
  const secret = kind !== "text";

  useEffect(() => {
    const active = document.activeElement;
    const writes = active instanceof HTMLTextAreaElement && active.value !== "";
    if (!writes) field.current?.focus();
    const { current } = field;
    return () => {
      if (current) current.value = "";
    };
  }, []);

  const answer = (event: FormEvent) => {
    event.preventDefault();
    const { current } = field;
    if (!current || !online) return;
    store.answer({ type: "question.answer", id, answer: current.value });
    current.value = "";
  };
  const say = (text: string) => store.answer({ type: "question.answer", id, answer: text });
  const choices = /\(yes\/no/i.test(prompt) ? ["yes", "no"] : [];
  return (
    <form
      className="question"
      onSubmit={answer}
      autoComplete="off"
      aria-label={`Input for ${neutralizeLine(from)}`}
    >
      <header>
        <strong>{neutralizeLine(from)}</strong> {secret ? "asks for a secret" : "asks"}
      </header>
      {details?.map((detail) => (
        <p key={detail}>{neutralizeLine(detail)}</p>
      ))}
      <pre id={`question-${id}`}>{neutralize(prompt.trim())}</pre>
      <div className={`answer ${choices.length > 0 ? "choices" : ""}`}>
        <input
          ref={field}
          className="field"
          type={secret ? "password" : "text"}
          name={`sysop-answer-${id}`}
          autoComplete={secret ? "new-password" : "off"}
          autoCapitalize="off"
          autoCorrect="off"
          spellCheck="false"
          data-1p-ignore=""
          data-lpignore="true"
          data-bwignore=""
          data-form-type="other"
          aria-label={secret ? "Secret (not shown, logged or sent to the model)" : "The answer"}
          aria-describedby={`question-${id}`}
        />
        <button type="submit" className="primary" disabled={!online}>
          Answer <kbd>Enter</kbd>
        </button>
        {choices.map((choice) => (
          <button key={choice} type="button" disabled={!online} onClick={() => say(choice)}>
            {choice}
          </button>
        ))}
        {kind === "perhaps_secret" && (
          <button
            type="button"
            disabled={!online}
            onClick={() => store.answer({ type: "question.answer", id, noSecret: true })}
            title="Answer in the terminal instead (visible and logged)"
          >
            Not a secret
          </button>
        )}
        <button
          type="button"
          disabled={!online}
          onClick={() => store.answer({ type: "question.answer", id, refuse: true })}
        >
          Decline
        </button>
      </div>
      {secret && <p className="meta">Sent to the program only. Not logged, not sent to the model.</p>}
    </form>
  );
}
