/** Splits growing Markdown into blocks and caches finished ones, so that only the end is parsed again. */
import { Lexer, type Token } from "marked";

/** A block; `key` is stable, and so is the object of a finished block. */
export interface Block {
  key: number;
  token: Token;
  finished: boolean;
}

/** Number of last blocks that may still change: a list continues after blank lines, a setext line makes a heading. */
const OPEN_BLOCKS = 2;

export class BlockParser {
  private text = "";
  private finished: Block[] = [];
  /** Start of the unfinished part. */
  private from = 0;
  private shown: readonly Block[] = [];

  /** Returns the blocks of the text. If the text extends the last one, finished blocks are not parsed again. */
  of(text: string, whole: boolean): readonly Block[] {
    if (text === this.text && !whole) return this.shown;
    if (!text.startsWith(this.text)) {
      this.finished = [];
      this.from = 0;
    }
    this.text = text;
    const tokens = lex(text.slice(this.from));
    const closed = whole ? tokens.length : tokens.length - OPEN_BLOCKS;
    const open: Block[] = [];
    tokens.forEach((token, at) => {
      const block = { key: this.from, token, finished: at < closed };
      if (at < closed) {
        this.finished.push(block);
        this.from += token.raw.length;
      } else {
        const before = open.at(-1);
        open.push({ ...block, key: before ? before.key + before.token.raw.length : this.from });
      }
    });
    this.shown = [...this.finished, ...open].filter(({ token }) => token.type !== "space");
    return this.shown;
  }
}

/** Splits Markdown whose line ends are `\n` into tokens. */
export function lex(text: string): Token[] {
  // The lexer itself changes tabs and line ends, which would shift offsets, so they are changed before.
  return new Lexer({ gfm: true, breaks: false }).lex(text);
}
