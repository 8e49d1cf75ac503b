/** A block of code: highlighted once it is finished, with what can be done with it. */
import { type ReactNode, useContext, useEffect, useState } from "react";
import { Commands, CopyButton } from "./Markdown";
import { neutralize, neutralizeLine, pieces, stripInvisible } from "./neutralize";

/** What is longer is shown in one color. */
const HIGHLIGHT_CHARS_MAX = 50_000;
/** Languages of commands, which a terminal understands; none is one of them, as models often say none. */
const SHELLS = new Set(["", "bash", "sh", "shell", "zsh", "console", "fish", "text", "shell-session"]);

export function Code({ text, language, finished }: { text: string; language: string; finished: boolean }) {
  const actions = useContext(Commands);
  const name = neutralizeLine(language.split(/[\s{,]/)[0] ?? "").slice(0, 24);
  const shown = useHighlighted(text, name, finished);
  return (
    <figure className="code">
      <figcaption>
        <span>{name || "text"}</span>
        <CopyButton text={text} />
        {actions && SHELLS.has(name.toLowerCase()) && (
          <button
            type="button"
            onClick={() => actions.paste(stripInvisible(withoutPrompts(text, name)))}
            title="Insert into the live terminal without Enter"
          >
            Send to terminal
          </button>
        )}
      </figcaption>
      <pre tabIndex={0}>
        <code>{shown}</code>
      </pre>
    </figure>
  );
}

/** A session that was copied with its prompts: the commands only. */
function withoutPrompts(text: string, language: string): string {
  if (language !== "console" && language !== "shell-session") return text;
  const commands = text.split("\n").filter((line) => /^\s*[$#]\s/.test(line));
  return commands.length > 0 ? commands.map((line) => line.replace(/^\s*[$#]\s/, "")).join("\n") : text;
}

/** What is not as it looks is marked. */
export function SafeText({ text }: { text: string }) {
  return pieces(text).map(({ text: piece, odd }, at) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of one text keep their places
    odd ? <InvisibleMark key={at} text={piece} /> : piece,
  );
}

function InvisibleMark({ text }: { text: string }) {
  return (
    <mark className="odd" title="Invisible character">
      {text}
    </mark>
  );
}

function useHighlighted(text: string, language: string, finished: boolean): ReactNode {
  const [done, become] = useState<{ text: string; shown: ReactNode }>();
  const wanted = finished && language !== "" && text.length <= HIGHLIGHT_CHARS_MAX;
  useEffect(() => {
    if (!wanted) return;
    let here = true;
    void import("./highlight").then(({ highlight }) => {
      const shown = highlight(text, language);
      if (here && shown) become({ text, shown });
    });
    return () => {
      here = false;
    };
  }, [wanted, text, language]);
  return done?.text === text ? done.shown : neutralize(text);
}
