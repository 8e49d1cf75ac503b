/** Tests of the palette, the settings, the session list and page sizes. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Locator } from "@playwright/test";
import { call, enter, expect, Person, say, test, visit } from "./fixtures";

/** Maximum total size of the page's files without its pictures, compressed. */
const PACKED_BYTES_MAX = 292 * 1024;
/** Maximum total size of the files that the first view needs, compressed. */
const FIRST_BYTES_MAX = 58 * 1024;

test("the palette finds actions and runs them by keys", async ({ page, serve }) => {
  const server = await serve({ script: { hello: [say("Hello.")] } });
  const person = await visit(page, server, await server.session());
  await person.prompt.focus();
  await page.keyboard.press("F1");
  const palette = page.getByRole("dialog", { name: "Command palette" });
  await expect(palette.getByRole("combobox")).toBeFocused();
  await page.keyboard.type("theme li");
  await expect(palette.getByRole("option")).toHaveText(["Theme: light"]);
  await page.keyboard.press("Enter");
  await expect(palette).toHaveCount(0);
  await expect(page.locator("html")).toHaveAttribute("data-theme", "light");
  await expect(person.prompt).toBeFocused();
  await page.keyboard.press("Control+k");
  await expect(palette.getByRole("combobox")).toBeFocused();
  await page.keyboard.type("read-only");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("combobox", { name: "Approval mode" })).toHaveValue("never");
  await page.keyboard.press("Control+k");
  await expect(palette.getByRole("combobox")).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(palette).toHaveCount(0);
});

test("a question mark shows the keys, but not while somebody types", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  const help = page.getByRole("dialog", { name: "Keyboard shortcuts" });
  await person.prompt.pressSequentially("why?");
  await expect(person.prompt).toHaveValue("why?");
  await person.types("echo ?");
  await person.sees("echo ?");
  await expect(help).toHaveCount(0);
  await page.getByRole("region", { name: "Messages" }).focus();
  await page.keyboard.press("?");
  await expect(help).toContainText("Command palette");
  await page.keyboard.press("Escape");
  await expect(help).toHaveCount(0);
});

test("the keys, the settings and the palette link to the guide", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server);
  const opens = async (press: () => Promise<void>) => {
    const [guide] = await Promise.all([page.waitForEvent("popup"), press()]);
    await expect(guide).toHaveURL(`${server.url}/help/`);
    await expect(guide.getByText("guide").first()).toBeVisible();
    await guide.close();
  };
  await expect(page.getByText("No sessions yet")).toBeVisible(); // the page listens for keys by then
  await person.button("Commands").press("?");
  const help = page.getByRole("dialog", { name: "Keyboard shortcuts" });
  await opens(() => help.getByRole("link", { name: "user guide" }).click());
  await page.keyboard.press("Escape");
  await person.button("Settings").click();
  await opens(() => page.getByRole("link", { name: "User guide" }).click());
  await page.keyboard.press("Escape");
  await person.button("Commands").click();
  await page.keyboard.type("guide");
  await opens(() => page.keyboard.press("Enter"));
});

test("the guide's search lists a page of that name first, as plain text", async ({ page, serve }) => {
  const server = await serve({});
  await visit(page, server);
  await page.goto(`${server.url}/help/`);
  const search = page.getByRole("searchbox", { name: "Search the guide" });
  for (const [words, title] of [
    ["undo", "Undo"],
    ["policy", "What runs, what asks, what is denied"],
    ["front ends", "Front ends"],
  ] as const) {
    await search.fill(words);
    const results = page.locator("#found li");
    await expect(results.first().locator("a")).toHaveText(new RegExp(`^${title}`));
    expect(await results.allTextContents()).not.toContainEqual(expect.stringMatching(/\| ---|\]\(/));
  }
});

test("the guide's search prefers phrases, and keys open what it found", async ({ page, serve }) => {
  const server = await serve({});
  await visit(page, server);
  const entry = (title: string, link: string, text: string) => ({ title, link, text });
  await page.route("**/help/search.json", (route) =>
    route.fulfill({
      json: [
        { ...entry("Commands: Model", "cli.html#model", "model not found"), reference: true },
        entry("Model", "models.html#model", "a key that was not found"),
        entry("Trouble: model not found", "troubleshooting.html#trouble", "check its name"),
        entry("Context", "context.html#context", "model not found"),
      ],
    }),
  );
  await page.goto(`${server.url}/help/`);
  const search = page.getByRole("searchbox", { name: "Search the guide" });
  await search.fill("`model` not found");
  const links = page.locator("#found li a");
  await expect(links.nth(0)).toContainText("Trouble: model not found");
  await expect(links.nth(1)).toContainText("Context");
  await expect(links.nth(2)).toContainText("Model");
  await expect(links.nth(3)).toContainText("Commands: Model");
  await search.press("ArrowDown");
  await expect(links.nth(0)).toBeFocused();
  await page.keyboard.press("ArrowDown");
  await expect(links.nth(1)).toBeFocused();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  await expect(search).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/troubleshooting\.html/);
});

test("on a phone, a picture of the guide scrolls sideways instead of the page", async ({ page, serve }) => {
  const server = await serve({});
  await visit(page, server);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${server.url}/help/introduction.html`);
  const picture = page.getByRole("img").first();
  await expect.poll(async () => (await picture.boundingBox())?.width ?? 0).toBeGreaterThan(700);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
});

test("the theme follows the system until one is chosen", async ({ page, serve }) => {
  const server = await serve({});
  const shown = page.locator("html");
  await page.emulateMedia({ colorScheme: "light" });
  const person = await visit(page, server);
  await expect(shown).toHaveAttribute("data-theme", "light");
  await page.emulateMedia({ colorScheme: "dark" });
  await expect(shown).toHaveAttribute("data-theme", "dark");
  await person.button("Settings").click();
  const choice = page.getByRole("group", { name: "Theme" });
  await expect(choice.getByRole("button", { name: "System" })).toHaveAttribute("aria-pressed", "true");
  await choice.getByRole("button", { name: "Light" }).click();
  await page.reload();
  await expect(shown).toHaveAttribute("data-theme", "light");
});

test("sessions are renamed, pinned and found by their content", async ({ page, serve }) => {
  const server = await serve({
    args: ["--approve", "auto"],
    script: {
      "look around": [say("The heart of it is `journald`, of course.")],
      "other thing": [say("Nothing here.")],
    },
  });
  const person = await visit(page, server, await server.session());
  await person.says("look around");
  await expect(person.conversation).toContainText("journald");
  const second = await server.session();
  await visit(page, server, second);
  await person.says("other thing");
  await expect(person.conversation).toContainText("Nothing here.");
  await person.button("Sessions").click();
  const list = page.getByRole("navigation", { name: "Sessions" });
  const rows = list.getByRole("listitem");
  await expect(rows).toHaveText([/^ ?other thing/, /^ ?look around/]);

  await list.getByRole("searchbox").fill("JOURNALD heart");
  await expect(rows).toHaveText([/look around.*The heart of it is journald/]);
  await list.getByRole("searchbox").fill("no such words");
  await expect(list).toContainText("No matches");
  await list.getByRole("searchbox").fill("");

  await list.getByRole("button", { name: "Actions for look around" }).click();
  await list.getByRole("button", { name: "Rename" }).click();
  await list.getByRole("textbox", { name: "New name of look around" }).fill("The journal");
  await page.keyboard.press("Enter");
  await expect(rows).toHaveText([/^ ?other thing/, /^ ?The journal/]);
  await expect(list.getByRole("button", { name: "Actions for The journal" })).toBeFocused();
  await list.getByRole("button", { name: "Actions for The journal" }).click();
  await list.getByRole("button", { name: "Pin" }).click();
  await expect(rows).toHaveText([/Pinned: ?The journal/, /^ ?other thing/]);
  await list.getByRole("button", { name: "Actions for other thing" }).click();
  await list.getByRole("button", { name: "Delete…" }).click();
  await list.getByRole("button", { name: "Delete permanently" }).click();
  await expect(rows).toHaveText([/The journal/]);
  await expect(rows.getByRole("button", { name: /The journal/ }).first()).toBeFocused();
});

test("Back shows the earlier session, and keeps the tabs", async ({ page, serve }) => {
  const server = await serve({ script: { first: [say("One.")], second: [say("Two.")] } });
  const person = await visit(page, server);
  const begin = async (task: string, answer: string) => {
    await page.keyboard.press("Alt+n");
    await person.button("Start session").click();
    await expect(page.getByRole("dialog")).toHaveCount(0); // its prompt is then that of the new session
    await person.says(task);
    await expect(person.conversation).toContainText(answer);
  };
  await begin("first", "One.");
  await begin("second", "Two.");
  await page.goBack();
  await expect(person.conversation).toContainText("One.");
  await expect(page.getByRole("textbox", { name: "Describe a task" })).toBeFocused();
  await expect(person.tabs).toHaveCount(2);
  await page.goForward();
  await expect(person.conversation).toContainText("Two.");
  await page.goBack();
  await page.goBack();
  await expect(page.getByRole("textbox", { name: "Task for a new session" })).toBeVisible();
  await expect(person.tabs).toHaveCount(2);
});

test("a list that a narrow window closed returns in a wide one", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await page.keyboard.press("Alt+s");
  const list = page.getByRole("navigation", { name: "Sessions" });
  await expect(list).toBeVisible();
  await page.setViewportSize({ width: 1024, height: 768 });
  await expect(list).toHaveCount(0);
  await page.setViewportSize({ width: 1440, height: 900 });
  await expect(list).toBeVisible();
  await person.button("Close list").click();
  await page.setViewportSize({ width: 1024, height: 768 });
  await page.setViewportSize({ width: 1440, height: 900 });
  await expect(list).toHaveCount(0);
});

test("a guest is told that nobody has opened the terminal, and sees it later", async ({
  page,
  browser,
  serve,
}) => {
  const server = await serve({});
  const id = await server.session();
  const person = await visit(page, server, id, "unused");
  const link = await server.request("POST", "/api/links", { access: "read" });
  const { path } = (await link.json()) as { path: string };
  const other = await (await browser.newContext()).newPage();
  await other.goto(`${server.url}${path}`);
  await other.goto(`${server.url}/#/s/${id}`);
  await expect(other.getByText("Read-only: you can watch")).toBeVisible();
  await other.getByRole("button", { name: "Terminal" }).click();
  const terminal = other.getByRole("region", { name: "Terminal" });
  await expect(terminal).toContainText("Nobody has opened the terminal");
  await expect(other.getByRole("alert")).toHaveCount(0);
  await page.keyboard.press("Alt+t");
  await person.sees("here:");
  await terminal.getByRole("button", { name: "Look again" }).click();
  await expect(terminal).toContainText("here:");
});

test("a session is listed as soon as it is opened, and by its first prompt", async ({ page, serve }) => {
  const server = await serve({ script: { hello: [say("Hello.")] } });
  const person = await visit(page, server);
  const list = page.getByRole("navigation", { name: "Sessions" });
  await expect(list).toContainText("No sessions yet");
  await visit(page, server, await server.session());
  // The list is reloaded every ten seconds anyway.
  await expect(list.getByRole("listitem")).toContainText("New session", { timeout: 5_000 });
  await person.says("hello there");
  await expect(list.getByRole("listitem")).toContainText("hello there", { timeout: 5_000 });
});

test("the composer stays in view below a tall proposal", async ({ page, serve }) => {
  const command = Array.from({ length: 40 }, (_, at) => `rm -rf /srv/old-${at}`).join("\n");
  const server = await serve({ script: { tidy: [call("bash", { command, reason: "These are old." })] } });
  await page.setViewportSize({ width: 390, height: 844 });
  const person = await visit(page, server, await server.session());
  await person.says("tidy up");
  await expect(person.review).toBeVisible();
  for (const [width, height] of [
    [390, 844],
    [390, 664],
  ]) {
    await page.setViewportSize({ width: width ?? 0, height: height ?? 0 });
    await expect(person.prompt).toBeInViewport({ ratio: 1 });
    await expect(person.button(/^Reject/)).toBeInViewport({ ratio: 1 });
    const what = await person.review.locator(".what").first().boundingBox();
    expect(what?.height).toBeGreaterThan(200); // the command is not squeezed
  }
});

for (const [width, height] of [
  [1024, 600],
  [1440, 600],
  [390, 600],
] as const) {
  test(`the answers of a tall proposal stay in view at ${width}x${height}`, async ({ page, serve }) => {
    const command = Array.from({ length: 40 }, (_, at) => `touch new-${at}`).join("\n");
    const reason = "The application looks for one file per worker, and stops if one is missing. ".repeat(4);
    const server = await serve({
      script: { make: [call("bash", { command, reason }), call("bash", { command: "touch one", reason })] },
    });
    await page.setViewportSize({ width, height });
    const person = await visit(page, server, await server.session());
    const answersAreVisible = async () => {
      const answers = person.review.locator("footer button");
      for (const answer of await answers.all()) await expect(answer).toBeInViewport({ ratio: 1 });
      await expect(person.prompt).toBeInViewport({ ratio: 1 });
      return answers.allTextContents();
    };
    await person.says("make the files");
    await expect(person.review).toBeVisible();
    expect(await answersAreVisible()).toEqual([
      expect.stringMatching(/^Keep reading \([2-5] pages\) Enter$/),
      expect.stringContaining("Edit"),
      expect.stringContaining("Reject"),
    ]);
    // The widest answer is below the command, and both can be scrolled into view above the other answers.
    const widest = person.button(/^Allow for session/);
    await expect(widest).toHaveCount(0);
    await person.review.press("End");
    await expect(widest).toBeEnabled();
    await widest.scrollIntoViewIfNeeded();
    await expect.poll(() => hiddenPixels(widest)).toBeLessThan(1);
    expect(await answersAreVisible()).toContainEqual(expect.stringContaining("Run"));
    await person.review.locator(".what").first().scrollIntoViewIfNeeded();
    expect(await answersAreVisible()).not.toHaveLength(0);
    await person.button(/^Edit/).click();
    expect(await answersAreVisible()).toEqual([
      expect.stringContaining("Run"),
      expect.stringContaining("Back"),
    ]);
    await page.keyboard.press("Escape");
    await person.button(/^Reject/).click();
    expect(await answersAreVisible()).toEqual([
      expect.stringContaining("Reject"),
      expect.stringContaining("Back"),
    ]);
  });
}

test("the prompt keeps its height when the window becomes narrow", async ({ page, serve }) => {
  const server = await serve({});
  await page.setViewportSize({ width: 1024, height: 700 });
  const person = await visit(page, server, await server.session());
  for (const width of [390, 1024, 390]) {
    await page.setViewportSize({ width, height: 844 });
    await expect.poll(async () => (await person.prompt.boundingBox())?.height).toBe(width < 760 ? 44 : 32);
  }
});

test("a list that becomes an overlay does not cover the conversation", async ({ page, serve }) => {
  const server = await serve({});
  await page.setViewportSize({ width: 1400, height: 900 });
  const person = await visit(page, server, await server.session());
  const list = page.getByRole("navigation", { name: "Sessions" });
  await person.button("Sessions").click();
  await expect(list).toBeVisible();
  await page.setViewportSize({ width: 768, height: 1024 });
  await expect(list).toBeHidden();
  // Opened there, it stays open.
  await person.button("Sessions").click();
  await expect(list).toBeVisible();
});

test("the list shows at once what an open session does", async ({ page, serve }) => {
  const server = await serve({
    script: { "touch it": [call("bash", { command: "touch made" }), say("Done.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.button("Sessions").click();
  const row = page.getByRole("navigation", { name: "Sessions" }).getByRole("listitem");
  await person.says("touch it");
  // The list itself is reloaded only every ten seconds.
  await expect(row).toContainText("needs approval", { timeout: 5_000 });
  await person.button(/^Run/).click();
  await expect(row).not.toContainText("needs approval", { timeout: 5_000 });
  await expect(person.conversation).toContainText("Done.");
});

for (const [width, height] of [
  [1280, 720],
  [1440, 900],
  [1680, 1050],
  [1920, 1080],
  [1024, 700],
  [390, 844],
] as const) {
  test(`the terminal fits to the row at ${width}x${height}`, async ({ page, serve }) => {
    await page.setViewportSize({ width, height });
    const server = await serve({});
    const person = await visit(page, server, await server.session());
    if (width < 760) await page.getByRole("button", { name: "Terminal", exact: true }).click();
    await person.sees("here:");
    await expect(async () => {
      const { room, used, overflows } = await page.evaluate(() => {
        const fit = document.querySelector<HTMLElement>(".terminal-slot:not(.away) .terminal-fit");
        const screen = fit?.querySelector(".xterm-screen");
        if (!fit || !screen) throw new Error("there is no terminal");
        return {
          room: fit.getBoundingClientRect().bottom,
          used: screen.getBoundingClientRect().bottom,
          overflows: fit.scrollHeight > fit.clientHeight || fit.scrollWidth > fit.clientWidth,
        };
      });
      expect(overflows).toBe(false);
      expect(used).toBeLessThanOrEqual(room);
      expect(room - used).toBeLessThan(20); // less than a row is left over
    }).toPass();
    await person.types("tput lines; seq 200; echo last-$((40+2))\r");
    const last = person.terminal.locator("> div").filter({ hasText: /^last-42/ });
    await expect(last).toBeInViewport({ ratio: 1 });
  });
}

test("a phone has the keys that its keyboard lacks", async ({ browser, serve }) => {
  const server = await serve({});
  const id = await server.session();
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true });
  const page = await context.newPage();
  const person = await visit(page, server, id);
  await page.getByRole("button", { name: "Terminal", exact: true }).tap();
  await person.sees("here:");
  await person.types("sleep 1000\r");
  await page.getByRole("button", { name: "Ctrl" }).tap();
  await expect(page.getByRole("button", { name: "Ctrl" })).toHaveAttribute("aria-pressed", "true");
  await page.keyboard.type("c");
  await expect(page.getByRole("button", { name: "Ctrl" })).toHaveAttribute("aria-pressed", "false");
  await person.sees("^C");
  await person.types("echo up-$((1+1))\r");
  await person.sees("up-2");
  await person.types("clear\r");
  await expect(person.terminal).not.toContainText("up-2");
  for (const key of ["Up", "Up"]) await page.getByRole("button", { name: key, exact: true }).tap();
  await page.keyboard.press("Enter");
  await person.sees("up-2");
  await smallTargets(person);
  await context.close();
});

test("the approval mode is shown as it is, not as it was asked for", async ({ page, serve }) => {
  const server = await serve({});
  const asked: string[] = [];
  await page.routeWebSocket("**/stream", (socket) => {
    const upstream = socket.connectToServer();
    socket.onMessage((message) => {
      if (String(message).includes('"configure"')) asked.push(String(message));
      else upstream.send(message);
    });
  });
  await visit(page, server, await server.session({ approve: "ask" }));
  const approval = page.getByLabel("Approval mode");
  await expect(approval).toHaveValue("ask");
  await approval.selectOption("auto");
  await expect.poll(() => asked.length).toBe(1);
  await expect(approval).toHaveValue("ask");
});

/** Height of the part that is out of view, perhaps a fraction of a pixel. */
function hiddenPixels(element: Locator): Promise<number> {
  return element.evaluate(
    (element) =>
      new Promise<number>((resolve) => {
        const observer = new IntersectionObserver(([entry]) => {
          observer.disconnect();
          if (entry) resolve(entry.boundingClientRect.height - entry.intersectionRect.height);
        });
        observer.observe(element);
      }),
  );
}

/** Touch targets are at least 44 pixels wide and high. */
async function smallTargets({ page }: Person): Promise<void> {
  const small = await page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>("button, select, summary, .field, [role=option], .setting a")]
      .filter((element) => element.checkVisibility({ checkVisibilityCSS: true }))
      .filter(({ offsetHeight, offsetWidth }) => offsetHeight < 43.5 || offsetWidth < 43.5)
      .map(
        ({ outerHTML, offsetHeight, offsetWidth }) =>
          `${outerHTML.slice(0, 80)}: ${offsetWidth}x${offsetHeight}`,
      ),
  );
  expect(small).toEqual([]);
}

for (const [device, width, height] of [
  ["a phone", 390, 844],
  ["a tablet", 768, 1024],
] as const) {
  test(`buttons are large enough on ${device}, and the toolbar is one row`, async ({ browser, serve }) => {
    const server = await serve({ script: { wipe: [call("bash", { command: "rm -rf x" }), say("Done.")] } });
    const id = await server.session();
    const context = await browser.newContext({ viewport: { width, height }, hasTouch: true, isMobile: true });
    const page = await context.newPage();
    const person = await visit(page, server, id);
    const approval = page.getByLabel("Approval mode");
    for (const mode of ["each", "auto", "never", "ask"]) {
      await approval.selectOption(mode);
      await expect(approval).toHaveValue(mode);
      const toolbar = await page.getByRole("toolbar", { name: "Turn" }).boundingBox();
      expect(toolbar?.height, mode).toBeLessThan(2 * 44);
    }
    writeFileSync(join(server.work, "x"), "x");
    await person.says("wipe");
    await expect(person.review.locator("summary")).toBeVisible();
    await smallTargets(person);
    expect((await person.prompt.boundingBox())?.height).toBeLessThan(2 * 44);
    await person.button("Sessions").tap();
    await smallTargets(person);
    await person.button("Close list").tap();
    await person.button("Commands").tap();
    await expect(page.getByRole("dialog", { name: "Command palette" })).toBeVisible();
    await smallTargets(person);
    await page.keyboard.press("Escape");
    await person.button("Settings").tap();
    await expect(page.getByRole("dialog", { name: "Settings" })).toBeVisible();
    await smallTargets(person);
    await context.close();
  });
}

test("the page is small, and can be installed", async ({ page, serve }) => {
  const dist = join(import.meta.dirname, "../dist");
  const packed = (files: string[]) =>
    files.reduce((sum, file) => sum + gzipSync(readFileSync(join(dist, file)), { level: 9 }).length, 0);
  const index = readFileSync(join(dist, "index.html"), "utf8");
  const loaded = [...index.matchAll(/<(?:script|link)\b[^>]*>/g)].flatMap(([tag]) => {
    const [, kind = "script"] = /\brel="([^"]*)"/.exec(tag) ?? [];
    if (!["script", "modulepreload", "stylesheet"].includes(kind)) return []; // icons and the manifest
    return /\b(?:src|href)="\/([^"]*)"/.exec(tag)?.[1] ?? [];
  });
  expect(loaded).toEqual(["theme.js", expect.stringMatching(/^assets\/index-.*\.js$/)]);
  expect(packed(["index.html", ...loaded])).toBeLessThanOrEqual(FIRST_BYTES_MAX);
  const assets = readdirSync(join(dist, "assets")).map((file) => `assets/${file}`);
  expect(assets.length).toBeGreaterThan(loaded.length);
  expect(packed(["index.html", "theme.js", ...assets])).toBeLessThanOrEqual(PACKED_BYTES_MAX);

  const server = await serve({});
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).origin));
  await visit(page, server);
  const manifest = await page.evaluate(async () => {
    const link = document.querySelector<HTMLLinkElement>('link[rel="manifest"]');
    return (await fetch(link?.href ?? "")).json();
  });
  expect(manifest).toMatchObject({ start_url: "/", display: "standalone" });
  for (const { src, type } of manifest.icons as { src: string; type: string }[]) {
    const icon = await page.request.get(`${server.url}${src}`);
    expect([icon.status(), icon.headers()["content-type"]]).toEqual([200, type]);
  }
  expect(new Set(asked)).toEqual(new Set([server.url]));
});

test("a dropped text file is uploaded to where the session works", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  const drop = async (content: number[], name: string) => {
    const data = await page.evaluateHandle(
      ([bytes, named]) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(bytes as number[])], named as string));
        return transfer;
      },
      [content, name] as const,
    );
    for (const event of ["dragover", "drop"]) {
      await page.locator(".conversation").dispatchEvent(event, { dataTransfer: data });
    }
  };
  const dialog = page.getByRole("dialog");
  await expect(async () => {
    // Taken as soon as the page knows what it may do.
    await drop([...Buffer.from("größe = 1\n")], "notes.toml");
    await expect(dialog).toBeVisible({ timeout: 500 });
  }).toPass();
  expect((await dialog.boundingBox())?.width).toBeLessThanOrEqual(620);
  await dialog.getByLabel(/^Path on/).fill("kept.toml");
  await dialog.getByRole("button", { name: "Upload" }).click();
  await expect(person.steps.first()).toContainText("typed by you");
  await expect.poll(() => existsSync(join(server.work, "kept.toml"))).toBe(true);
  expect(readFileSync(join(server.work, "kept.toml"), "utf8")).toBe("größe = 1\n");
  // A phone, from which nothing can be dragged, has a button for it.
  await dialog.waitFor({ state: "hidden" });
  const chooser = page.waitForEvent("filechooser");
  await person.button("Attach an image or upload a file").click();
  const chosen = { name: "chosen.toml", mimeType: "application/toml", buffer: Buffer.from("size = 1\n") };
  await (await chooser).setFiles(chosen);
  await dialog.getByRole("button", { name: "Upload" }).click();
  await expect.poll(() => existsSync(join(server.work, "chosen.toml"))).toBe(true);
  await drop([0xff, 0xfe, 0], "picture.bin");
  await expect(dialog).toContainText("not a text file");
  await expect(dialog.getByRole("button", { name: "Upload" })).toBeDisabled();
});

test("a linked device is signed in once, and a shared page only watches", async ({
  page,
  browser,
  serve,
}) => {
  const server = await serve({
    script: { "touch it": [call("bash", { command: "touch made" }), say("Done.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("touch it");
  await expect(person.review).toBeVisible();
  const linkOf = async (button: string) => {
    await person.button("Settings").click();
    await page.getByRole("dialog").getByRole("button", { name: button }).click();
    await expect(page.getByRole("img", { name: "QR code of the link" })).toBeVisible();
    const link = await page.getByRole("textbox", { name: "Link" }).inputValue();
    await page.getByRole("button", { name: "Close" }).click();
    return link;
  };
  const opened = async (link: string) => {
    const other = await (await browser.newContext()).newPage();
    const answer = await other.goto(link);
    return { other, status: answer?.status() };
  };

  const shared = await linkOf("Create link");
  const { other } = await opened(shared);
  expect(new URL(other.url()).search).toBe("");
  const watching = other.getByRole("region", { name: "Conversation" });
  await expect(watching).toContainText("You can watch, but not approve");
  await expect(watching).toContainText("touch made");
  await other.getByRole("button", { name: "Terminal" }).click();
  const terminal = other.getByRole("region", { name: "Terminal" });
  await expect(terminal).toContainText("read-only");
  await expect(terminal).toContainText("here:");
  await expect(other.getByRole("alert")).toHaveCount(0); // the page asks for nothing that it may not do
  await expect(other.getByRole("textbox", { name: "Describe a task" })).toHaveCount(0);
  const refused = await other.evaluate(async () => {
    const id = location.hash.slice("#/s/".length);
    const headers = { "content-type": "application/json" };
    const send = (path: string, body: unknown) =>
      fetch(path, { method: "POST", headers, body: JSON.stringify(body) }).then(({ status }) => status);
    return [
      await send(`/api/agent/sessions/${id}/messages`, { content: "hello" }),
      await send(`/api/agent/sessions/${id}/decisions`, { toolCallId: "call_1", decision: "allow" }),
      await send("/api/links", { access: "same" }),
    ];
  });
  expect(refused).toEqual([403, 403, 403]);
  await expect(other.getByRole("button", { name: "New session" })).toHaveCount(0);
  expect((await opened(shared)).status).toBe(401);
  const start = await other.context().newPage();
  await start.goto(server.url);
  await expect(start.locator(".app:not(.shell) .welcome")).toContainText(
    "You can watch the sessions in the list.",
  );

  const device = await opened(await linkOf("Show code"));
  await expect(device.other.getByRole("group", { name: /^Approve this command/ })).toBeVisible();
  await device.other.getByRole("button", { name: /^Run/ }).click();
  await expect(watching).toContainText("Done.");
  expect(existsSync(join(server.work, "made"))).toBe(true);
});

test("a session with several hosts has a table instead of a terminal", async ({ page, serve, sshd }) => {
  const far = await sshd("", "app01 app02 app03");
  const gate = join(far.home, "go");
  const wait = `mkdir first 2>/dev/null && exit 3; until [ -e ${gate} ]; do sleep 0.05; done`;
  const server = await serve({
    args: ["--approve", "auto"],
    env: { SYSOP_SSH_CONFIG: far.config },
    script: { "wait there": [call("bash", { command: wait }), say("All done.\n\n```sh\nuptime\n```")] },
  });
  const id = await server.session({ host: "app01,app02,app03", root: far.home });
  const person = await visit(page, server, id);
  const table = page.getByRole("region", { name: "Hosts", exact: true });
  await expect(table.getByRole("row")).toHaveText([
    /^Host/,
    /app01not/,
    /app02not/,
    /app03not contacted yet/,
  ]);
  await expect(person.button("Open another shell")).toHaveCount(0);
  await person.says("wait there");
  if (await person.review.isVisible()) await person.button(/^Run/).click();
  await expect(table.getByRole("status")).toHaveText("1/3 done");
  await expect(table.getByRole("row").filter({ hasText: "failed" })).toContainText("3");
  await expect(table).toContainText("1 failed");
  writeFileSync(gate, "");
  await expect(table.getByRole("status")).toHaveText("3/3 done");
  await expect(table.getByRole("row").filter({ hasText: "ok" })).toHaveCount(2);
  await expect(person.conversation).toContainText("uptime");
  await expect(person.button("Copy")).not.toHaveCount(0);
  await expect(person.button("Send to terminal")).toHaveCount(0);
});

test("a browser whose token was revoked is offered to sign in again", async ({ page, serve }) => {
  const server = await serve({});
  const token = server.createToken("laptop");
  const id = await server.session();
  await page.goto(`${server.url}/?token=${token}`);
  await page.goto(`${server.url}/#/s/${id}`);
  const person = new Person(page);
  await expect(person.prompt).toBeVisible();
  server.revokeToken("laptop");
  await expect(page.getByRole("alert")).toContainText("this browser is no longer signed in");
  await person.button("Sign in").click();
  await expect(page.getByLabel("Access token")).toBeVisible();
});

test("the first paint waits for nothing but the page itself", async ({ browser, serve }) => {
  const server = await serve({});
  const context = await browser.newContext();
  await enter(context, server);
  const page = await context.newPage();
  // No response arrives before the first paint.
  await page.route("**/api/**", () => undefined);
  await page.goto(`${server.url}/`);
  await expect(page.getByRole("button", { name: "New session" }).first()).toBeVisible();
  await context.close();
});
