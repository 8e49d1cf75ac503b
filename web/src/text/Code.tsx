/** Code block with actions; highlighted once it is complete. */
import { type ReactNode, useContext, useEffect, useState } from "react";
import { CopyButton } from "./CopyButton";
import { Commands } from "./command-actions";
import { idle } from "./idle";
import { neutralize, neutralizeLine, pieces, stripInvisible } from "./neutralize";

type Highlight = typeof import("./highlight").highlight;

/** Longer code is not highlighted. */
const HIGHLIGHT_CHARS_MAX = 50_000;
/** Languages of shell commands; includes no language, because models often omit it. */
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
            onClick={() => actions.insert(stripInvisible(withoutPrompts(text, name)))}
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

/** Returns only the commands of a shell session that contains prompts. */
function withoutPrompts(text: string, language: string): string {
  if (language !== "console" && language !== "shell-session") return text;
  const commands = text.split("\n").filter((line) => /^\s*[$#]\s/.test(line));
  return commands.length > 0 ? commands.map((line) => line.replace(/^\s*[$#]\s/, "")).join("\n") : text;
}

/** Marks invisible and misleading characters. */
export function SafeText({ text }: { text: string }) {
  return pieces(text).map(({ text: piece, odd }, at) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a string keep their positions
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

/** The highlighter, once it is loaded. A row that is mounted again while the user scrolls does not wait for it. */
let highlight: Highlight | undefined;

/** Loads the highlighter. Text without colors can be read, so its paint comes first. */
async function loadWhenIdle(): Promise<Highlight> {
  await idle();
  const loaded = await import("./highlight");
  await idle(); // highlighting is a task of its own
  return loaded.highlight;
}

function useHighlighted(text: string, language: string, finished: boolean): ReactNode {
  const [done, become] = useState<{ text: string; shown: ReactNode }>();
  const wanted = finished && language !== "" && text.length <= HIGHLIGHT_CHARS_MAX;
  useEffect(() => {
    if (!wanted) return;
    let here = true;
    const color = async () => {
      highlight ??= await loadWhenIdle();
      const shown = here && highlight(text, language);
      if (shown) become({ text, shown });
    };
    void color();
    return () => {
      here = false;
    };
  }, [wanted, text, language]);
  return done?.text === text ? done.shown : neutralize(text);
}
