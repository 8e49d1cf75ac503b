/**
 * Renders a model's Markdown. HTML is shown as text, links are limited to known schemes, images become links: nothing
 * is loaded from other sites.
 */
import type { Token, Tokens } from "marked";
import { memo, type ReactNode, useContext, useRef } from "react";
import { type Block, BlockParser } from "./blocks";
import { Code } from "./Code";
import { CopyButton } from "./CopyButton";
import { Commands } from "./command-actions";
import {
  disclosedTarget,
  neutralize,
  neutralizeLine,
  neutralizeProse,
  safeHref,
  stripInvisible,
} from "./neutralize";

export function Markdown({ text, whole }: { text: string; whole: boolean }) {
  const blocks = useRef<BlockParser>(undefined);
  blocks.current ??= new BlockParser();
  // Apply the lexer's own replacements first, so that block offsets stay valid.
  const shown = blocks.current.of(text.replace(/\r\n|\r/g, "\n"), whole);
  return (
    <div className="markdown">
      {shown.map((block) => (
        <BlockView key={block.key} block={block} />
      ))}
    </div>
  );
}

const BlockView = memo(
  ({ block }: { block: Block }) => <>{blockNode(block.token, block.finished)}</>,
  (a, b) => a.block.token.raw === b.block.token.raw && a.block.finished === b.block.finished,
);

function blockNode(token: Token, finished: boolean): ReactNode {
  switch (token.type) {
    case "space":
      return null;
    case "heading": {
      const { depth, tokens } = token as Tokens.Heading;
      // Headings begin below the page's own level, without gaps between levels, which models leave.
      return <h3 className={`h h${depth}`}>{inline(tokens)}</h3>;
    }
    case "paragraph":
      return <p>{inline((token as Tokens.Paragraph).tokens)}</p>;
    case "text": {
      const { tokens, text } = token as Tokens.Text;
      return tokens ? inline(tokens) : neutralizeProse(text);
    }
    case "code": {
      const { lang, text } = token as Tokens.Code;
      return <Code text={text} language={lang ?? ""} finished={finished} />;
    }
    case "blockquote":
      return <blockquote>{nodes((token as Tokens.Blockquote).tokens, finished)}</blockquote>;
    case "list":
      return <List token={token as Tokens.List} finished={finished} />;
    case "table":
      return <Table token={token as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "html":
      // A `<cmd>` at the beginning of a line is a block of HTML to the lexer.
      return <p>{chips((token as Tokens.HTML).raw.trim())}</p>;
    default:
      return <p>{neutralize(token.raw)}</p>;
  }
}

/** Renders nested blocks; their number and order change only at the end. */
function nodes(tokens: readonly Token[], finished: boolean): ReactNode[] {
  return keyed(tokens).map(([key, token]) => <BlockView key={key} block={{ key, token, finished }} />);
}

/** Returns tokens with their offset, a key that is stable while the text before it is unchanged. */
function keyed(tokens: readonly Token[]): [number, Token][] {
  let at = 0;
  return tokens.map((token) => {
    const key = at;
    at += Math.max(1, token.raw.length);
    return [key, token];
  });
}

function List({ token, finished }: { token: Tokens.List; finished: boolean }) {
  const items = keyed(token.items).map(([key, item]) => {
    const { task, checked, tokens } = item as Tokens.ListItem;
    return (
      <li key={key} className={task ? "task" : undefined}>
        {task && (
          <input type="checkbox" checked={checked ?? false} readOnly tabIndex={-1} aria-label="Done" />
        )}
        {nodes(
          tokens.filter(({ type }) => type !== "checkbox"),
          finished,
        )}
      </li>
    );
  });
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

/** Length of a cell up to which it is a number with its unit, and from which it is a sentence. */
const NUMBER_CHARS_MAX = 16;
const SENTENCE_CHARS_MIN = 32;

function Table({ token }: { token: Tokens.Table }) {
  // A column at the right holds numbers, which stay together with their units.
  const column = (at: number, text: string) => {
    const isNumber = token.align[at] === "right" && text.length <= NUMBER_CHARS_MAX;
    return {
      className: text.length >= SENTENCE_CHARS_MIN ? "long" : undefined,
      style: {
        textAlign: token.align[at] ?? undefined,
        whiteSpace: isNumber ? ("nowrap" as const) : undefined,
      },
    };
  };
  return (
    <section className="table" tabIndex={0} aria-label="Table">
      <table>
        <thead>
          <tr>
            {token.header.map((cell, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: columns have no other name
              <th key={at} {...column(at, cell.text)}>
                {inline(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, line) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have no other name
            <tr key={line}>
              {row.map((cell, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns have no other name
                <td key={at} {...column(at, cell.text)}>
                  {inline(cell.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const OPENS = /^<cmd>$/i;
const CLOSES = /^<\/cmd>$/i;

/** Renders inline tokens. `<cmd>` and `</cmd>` are separate tokens; the text between them is a command. */
function inline(tokens: readonly Token[]): ReactNode[] {
  const shown: ReactNode[] = [];
  const all = keyed(tokens);
  for (let at = 0; at < all.length; at += 1) {
    const found = all[at];
    if (!found) break;
    const [key, token] = found;
    if (token.type === "html" && OPENS.test(token.raw)) {
      const end = all.findIndex(([, other], place) => place > at && CLOSES.test(other.raw));
      if (end > at) {
        const command = all
          .slice(at + 1, end)
          .map(([, other]) => other.raw)
          .join("");
        shown.push(<Chip key={key} command={withoutEntities(command)} />);
        at = end;
        continue;
      }
    }
    shown.push(<Inline key={key} token={token} />);
  }
  return shown;
}

function Inline({ token }: { token: Token }): ReactNode {
  switch (token.type) {
    case "text":
    case "escape": {
      const { tokens, text } = token as Tokens.Text;
      return tokens ? inline(tokens) : neutralizeProse(text);
    }
    case "strong":
      return <strong>{inline((token as Tokens.Strong).tokens)}</strong>;
    case "em":
      return <em>{inline((token as Tokens.Em).tokens)}</em>;
    case "del":
      return <del>{inline((token as Tokens.Del).tokens)}</del>;
    case "codespan":
      return <code>{wholeWords(neutralizeLine((token as Tokens.Codespan).text))}</code>;
    case "br":
      return <br />;
    case "link": {
      const { href, tokens } = token as Tokens.Link;
      return (
        <Anchor href={href} text={(token as Tokens.Link).text}>
          {inline(tokens)}
        </Anchor>
      );
    }
    case "image": {
      const { href, text } = token as Tokens.Image;
      return (
        <Anchor href={href} text={text || href}>
          {neutralize(text || href)}
        </Anchor>
      );
    }
    case "html":
      return chips(token.raw);
    default:
      return neutralize(token.raw);
  }
}

/** Link that shows its target unless its text already does. */
function Anchor({ href, text, children }: { href: string; text: string; children: ReactNode }) {
  const safe = safeHref(href);
  if (!safe) return <span className="bad-link">{children}</span>;
  const disclosed = disclosedTarget(text, safe);
  return (
    <>
      <a href={safe} target="_blank" rel="noopener noreferrer" title={neutralizeLine(safe)}>
        {children}
      </a>
      {disclosed && ` (${neutralizeLine(disclosed)})`}
    </>
  );
}

/** Maximum characters of a word of code that is never broken; a longer one is probably a path. */
const WHOLE_CHARS_MAX = 24;

/** Text of code whose lines break only between words, and not after the hyphens of an option. */
function wholeWords(text: string): ReactNode {
  if (!text.includes("-")) return text;
  return text.split(/( +)/).map((word, at) => {
    const isWhole = word.includes("-") && word.length <= WHOLE_CHARS_MAX;
    // biome-ignore lint/suspicious/noArrayIndexKey: the words of a text keep their positions
    return isWhole ? <span key={at}>{word}</span> : word;
  });
}

/** Renders HTML as text, except commands in it. */
function chips(raw: string): ReactNode[] {
  return raw.split(/(<cmd>[\s\S]*?<\/cmd>)/gi).map((part, at) => {
    const command = /^<cmd>([\s\S]*?)<\/cmd>$/i.exec(part)?.[1];
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a string keep their positions
    return command === undefined ? neutralize(part) : <Chip key={at} command={withoutEntities(command)} />;
  });
}

const ENTITIES: Record<string, string> = {
  "&lt;": "<",
  "&gt;": ">",
  "&amp;": "&",
  "&quot;": '"',
  "&#39;": "'",
};

/** Decodes HTML entities, which models that write HTML use as well. */
function withoutEntities(text: string): string {
  return text.replace(/&(?:lt|gt|amp|quot|#39);/g, (entity) => ENTITIES[entity] ?? entity).trim();
}

/** A command with buttons to run or copy it. */
function Chip({ command }: { command: string }) {
  const actions = useContext(Commands);
  const hidden = stripInvisible(command) !== command;
  const title = hidden
    ? "Contains invisible characters. Copy and inspect it first."
    : "Asks, then runs in the live terminal. sysop does not check it.";
  return (
    <span className="chip">
      <code>{neutralizeLine(command)}</code>
      {actions && (
        <button type="button" disabled={hidden} onClick={() => actions.run(command)} title={title}>
          Run in terminal
        </button>
      )}
      <CopyButton text={command} />
    </span>
  );
}
