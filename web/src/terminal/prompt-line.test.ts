// @vitest-environment happy-dom
import { Terminal } from "@xterm/xterm";
import { expect, test, vi } from "vitest";
import { isBarePrompt, PromptLine } from "./prompt-line";

const EDITOR = "\u001b[?2004h";
const NO_EDITOR = "\u001b[?2004l";

/** A screen that shows what a shell wrote, and the line of its cursor. */
async function shows(...texts: string[]) {
  const term = new Terminal({ allowProposedApi: true, cols: 40, rows: 5 });
  const line = new PromptLine(term);
  const write = (text: string) =>
    new Promise<void>((done) => {
      const parsed = term.onWriteParsed(() => {
        parsed.dispose();
        done();
      });
      term.write(text);
    });
  for (const text of texts) await write(text);
  return { line, write };
}

test.each(["", "$ ", "root@web1:/# ", "[me@pc ~]$ ", "mysql> ", ">>> ", "me@pc ~> ", "❯ "])(
  "%j is a prompt without text",
  (line) => expect(isBarePrompt(line)).toBe(true),
);

test.each([
  "$ ls",
  "$ echo a > ",
  "> ",
  "quote> ",
  "for then> ",
  "    -> ",
  "    '> ",
  "    ",
  "➜  ~ ",
  "web1 ❯❯ x",
])("%j may have text", (line) => expect(isBarePrompt(line)).toBe(false));

test("a prompt without a common sign is known after it was drawn", async () => {
  const { line, write } = await shows(`${EDITOR}web1: `);
  expect(line.isEmpty()).toBe(false);
  await write(`true\r\n${NO_EDITOR}\r`);
  await write(`${EDITOR}web1: `);
  expect(line.isEmpty()).toBe(true);
  await write("x");
  expect(line.isEmpty()).toBe(false);
  line.restart();
  await write("\b \b");
  expect(line.isEmpty()).toBe(false);
});

test("zsh begins to edit after its prompt", async () => {
  const { line, write } = await shows(`web1: ${EDITOR}`);
  await write(`true${NO_EDITOR}\r\r\n`);
  await write(`\r\u001b[Jweb1: \u001b[K${EDITOR}`);
  expect(line.isEmpty()).toBe(true);
});

test("a line that bash edits on after a signal is no new prompt", async () => {
  const { line, write } = await shows(`${EDITOR}web1: `);
  const typed = vi.fn();
  line.onNextPrompt(typed);
  await write(`typed^C${NO_EDITOR}\r${EDITOR}web1: typed`);
  expect(line.isEmpty()).toBe(false);
  expect(typed).not.toHaveBeenCalled();
  await write(`^C${NO_EDITOR}\r${EDITOR}${NO_EDITOR}\r\r\n`);
  expect(typed).not.toHaveBeenCalled();
  await write(`${EDITOR}web1: `);
  expect(typed).toHaveBeenCalledOnce();
  expect(line.isEmpty()).toBe(true);
});

test("the next prompt is below the line even if the screen has scrolled", async () => {
  const { line, write } = await shows(`${"\r\n".repeat(9)}${EDITOR}$ x`);
  const typed = vi.fn();
  line.onNextPrompt(typed);
  await write(`^C${NO_EDITOR}\r\n${EDITOR}$ `);
  expect(typed).toHaveBeenCalledOnce();
});

test("a continued command has no empty line", async () => {
  const { line, write } = await shows(`${EDITOR}$ `);
  await write(`echo "\r\n${NO_EDITOR}\r${EDITOR}> `);
  expect(line.isEmpty()).toBe(false);
});

test("text to the right of the cursor is text, and a prompt at the right of the line is none", async () => {
  const { line, write } = await shows(`${EDITOR}$ rm -rf x\r\u001b[2C`);
  expect(line.isEmpty()).toBe(false);
  await write("\u001b[K\u001b[12Cbranch\r\u001b[2C");
  expect(line.isEmpty()).toBe(true);
});

test("a redirection after a known prompt is text, even if it looks like a prompt", async () => {
  const { line, write } = await shows(`${EDITOR}web1: true\r\n${NO_EDITOR}\r`, `${EDITOR}web1: `);
  expect(line.isEmpty()).toBe(true);
  await write("cat > ");
  expect(line.isEmpty()).toBe(false);
});

test.each<[string, (its: Awaited<ReturnType<typeof shows>>) => unknown]>([
  ["a screen that is drawn anew", ({ line }) => line.restart()],
  ["output that fills the scrollback", ({ write }) => write("\r\n".repeat(2_000))],
])("after %s, no prompt is the next one", async (_, redraw) => {
  const its = await shows(`${EDITOR}$ x`);
  const typed = vi.fn();
  its.line.onNextPrompt(typed);
  await redraw(its);
  await its.write(`\r\n\r\n${EDITOR}$ `);
  expect(typed).not.toHaveBeenCalled();
});
