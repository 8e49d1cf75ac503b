/** The live terminal: typed into, pasted into, searched, resized, shared, flooded. */
import type { Page } from "@playwright/test";
import { call, expect, Person, say, test, visit } from "./fixtures";

async function paste(page: Page, text: string): Promise<void> {
  await page.locator(".xterm-helper-textarea").evaluate((field, pasted) => {
    const data = new DataTransfer();
    data.setData("text/plain", pasted);
    field.dispatchEvent(
      new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }),
    );
  }, text);
}

test("typed commands run, and a reload shows the same screen", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await person.types("echo typed-$((40+2))\r");
  await person.sees("typed-42");
  await expect(page.getByText(/(is|are) typing; agent paused$/)).toBeVisible();
  await page.reload();
  await person.sees("typed-42");
  await person.types("printf '\\033[31m\\xF0\\x9F\\x98\\x80 %s\\n' wide\r");
  await person.sees("😀 wide");
});

test("a reload keeps the scrollback with its colors", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await person.types("for i in $(seq 200); do printf '\\033[32mline-%s;\\033[0m\\n' $i; done\r");
  await person.sees("line-200;");
  await page.reload();
  await person.sees("line-200;");
  await expect(person.terminal).not.toContainText("line-1;");
  await page.locator(".xterm-helper-textarea").focus();
  for (let pages = 0; pages < 6; pages += 1) await page.keyboard.press("Shift+PageUp");
  await person.sees("line-1;");
  const first = person.terminal.locator("span", { hasText: /^line-1;$/ });
  await expect(first).toHaveClass(/xterm-fg-2\b/);
  // Once each, in order: redrawn output must not appear below earlier output.
  await page.keyboard.press("Control+Shift+F");
  await page.getByRole("textbox", { name: "Search terminal" }).fill("line-1;");
  await expect(page.locator(".terminal-search [role=status]")).toHaveText("1 of 1");
});

test("a reload restores the main screen under the alternate screen of a program", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await person.types("echo before-$((1+1)); seq 300 | less\r");
  await expect(person.terminal).not.toContainText("before-2");
  await person.types("G");
  await person.sees("(END)");
  await page.reload();
  await person.sees("(END)");
  await person.types("q");
  await person.sees("before-2");
});

test("a paste of several lines has to be confirmed, and control characters never arrive", async ({
  page,
  serve,
}) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await paste(page, "echo one-line");
  await person.sees("echo one-line");
  await person.types("\r");
  const ask = page.getByRole("alertdialog");
  await paste(page, "echo first-$((1+1))\necho second-$((1+2))\n");
  await expect(ask).toContainText("2 lines");
  await expect(ask.getByRole("button", { name: "Paste" })).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(ask).toHaveCount(0);
  await paste(page, "echo first-$((1+1))\necho second-$((1+2))\n");
  await ask.getByRole("button", { name: "Paste" }).click();
  await person.types("\r");
  await person.sees("first-2");
  await person.sees("second-3");
  await paste(page, "echo \u001b[201~\u0003marked");
  await expect(ask).toContainText("Control characters");
  await ask.getByRole("button", { name: "Paste" }).click();
  await person.sees("echo [201~marked");
});

test("a command of an answer opens the terminal, and a second one takes its place if the user wants it", async ({
  page,
  serve,
}) => {
  const script = { how: [say("```sh\necho first-$((1+1))\n```\n\n```sh\necho second-$((1+2))\n```")] };
  const server = await serve({ script });
  const person = await visit(page, server, await server.session(), "unused");
  await person.says("how");
  const send = page.getByRole("button", { name: "Send to terminal" });
  await send.first().click();
  await person.sees("echo first-$((1+1))");
  await page.keyboard.press("Alt+t");
  await expect(person.terminal).toBeHidden();
  await send.last().click();
  const ask = page.getByRole("alertdialog", { name: /^Replace the text on the line\?/ });
  await expect(ask.getByRole("button", { name: "Replace" })).toBeFocused();
  await ask.getByRole("button", { name: "Replace" }).click();
  await expect(page.getByRole("textbox", { name: /^Live terminal/ })).toBeFocused();
  await person.sees("echo second-$((1+2))");
  await person.types("\r");
  await person.sees("second-3");
  await expect(person.terminal).not.toContainText("first-2");
});

test("the search is used by keys", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await person.types("for i in 1 2 3; do echo needle-$i; done\r");
  await person.sees("needle-3");
  await page.keyboard.press("Control+Shift+F");
  const box = page.getByRole("textbox", { name: "Search terminal" });
  await expect(box).toBeFocused();
  await box.fill("needle-");
  await expect(page.locator(".terminal-search [role=status]")).toHaveText(/\d+ of \d+/);
  await box.fill("nowhere at all");
  await expect(page.locator(".terminal-search [role=status]")).toHaveText("not found");
  await box.press("Escape");
  await expect(box).toHaveCount(0);
  await person.types("echo back-in-the-$((1))-terminal\r");
  await person.sees("back-in-the-1-terminal");
});

test("the focus leaves the terminal by keys, and Tab reaches the shell", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  const terminal = page.getByRole("textbox", { name: /^Live terminal\. Press Ctrl\+Shift\+Enter/ });
  await terminal.focus();
  await page.keyboard.press("Tab");
  await expect(terminal).toBeFocused();
  await page.keyboard.press("Control+Shift+Enter");
  await expect(person.prompt).toBeFocused();
  await terminal.focus();
  await page.keyboard.type("x");
  const release = person.button("Return control");
  await release.focus();
  await page.keyboard.press("Enter");
  await expect(release).toHaveCount(0);
  await expect(person.prompt).toBeFocused();
});

test("the shell has the size of the terminal on the page, which has 80 columns if there is room", async ({
  page,
  serve,
}) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await page.setViewportSize({ width: 1000, height: 700 });
  const columns = async () => {
    await person.types("clear; echo size-$(tput cols)-\r");
    const shown = /size-(\d+)-/;
    await person.sees(shown);
    return Number(shown.exec((await person.terminal.textContent()) ?? "")?.[1]);
  };
  let [narrow, wide] = [0, 0];
  await expect(async () => {
    narrow = await columns();
    expect(narrow).toBeLessThan(75);
  }).toPass();
  await page.setViewportSize({ width: 1440, height: 900 });
  await expect(async () => {
    wide = await columns();
    expect(wide).toBeGreaterThan(narrow + 5);
  }).toPass();
  expect(wide).toBeGreaterThanOrEqual(80);
});

test("two people share one terminal, and the agent waits until it is handed back", async ({
  page,
  context,
  serve,
}) => {
  const script = {
    "use it": [call("run_command", { command: "echo the-agent-$((1+1))", reasoning: "" }), say("Used.")],
  };
  const server = await serve({ script, args: ["--approve", "auto"] });
  const id = await server.session();
  const here = await visit(page, server, id);
  const there = await visit(await context.newPage(), server, id);
  await here.sees("here:");
  await there.sees("here:");
  await here.types("echo half-a-line");
  await there.sees("echo half-a-line");
  await expect(there.page.getByText(/(is|are) typing; agent paused$/)).toBeVisible();
  await here.page.keyboard.press("Control+C");
  await here.button("Return control").click();
  await expect(there.page.getByText(/(is|are) typing; agent paused$/)).toHaveCount(0);
  await here.says("use it");
  await here.sees("the-agent-2");
  await there.sees("the-agent-2");
});

test("the end of a shell is reported, and another one can be opened", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await person.types("exit 3\r");
  await person.button("Open another shell").click();
  await expect(person.button("Open another shell")).toHaveCount(0);
  // Keys that come before the new shell starts are dropped.
  await expect(person.terminal).not.toContainText("exit 3");
  await person.sees("here:");
  await person.types("echo another-$((1+1))\r");
  await person.sees("another-2");
});

test("a flood leaves the page responsive, and the last screen is right", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await watchTasks(page);
  await person.types(
    "seq -f 'line-%.0f-of-a-flood-that-is-long-enough-to-matter' 400000; echo the-$((6*7))-end\r",
  );
  await person.says("!echo meanwhile"); // the conversation lives on
  await expect(person.conversation).toContainText("meanwhile");
  await person.sees("the-42-end");
  await person.sees("line-400000-of");
  const longest = await page.evaluate(() => (window as unknown as { longest: number }).longest);
  test.info().annotations.push({ type: "longest task", description: `${Math.round(longest)} ms` });
  expect(longest).toBeLessThan(1000); // the bench holds it to less on a quiet machine
  await person.types("echo still-$((1+1))\r");
  await person.sees("still-2");
});

/** Records the longest time for which the page did not respond. */
async function watchTasks(page: Page): Promise<void> {
  await page.evaluate(() => {
    const noted = window as unknown as { longest: number };
    noted.longest = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) noted.longest = Math.max(noted.longest, duration);
    }).observe({ entryTypes: ["longtask"] });
  });
}

test("each tab has its own terminal", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await person.types("echo in-the-$((1))st\r");
  await person.sees("in-the-1st");
  await person.button("New session").first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Start session" }).click();
  await expect(person.tabs).toHaveCount(2);
  const other = new Person(page);
  await other.sees("here:");
  await expect(other.terminal).not.toContainText("in-the-1st");
  await person.tabs.first().click();
  await person.sees("in-the-1st");
});
