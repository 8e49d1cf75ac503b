/** Tests of the parts of the page that are loaded after its first view, while their code is on its way or does not come. */
import type { Page } from "@playwright/test";
import { enter, expect, Person, say, test, visit } from "./fixtures";

const DIALOGS = "**/assets/DialogView-*.js";
const PARTS = "**/assets/parts-*.js";

/** Holds the answers to requests back until the returned function is called. */
async function hold(page: Page, url: string): Promise<() => void> {
  let release = () => {};
  const released = new Promise<void>((done) => {
    release = done;
  });
  await page.route(url, async (route) => {
    await released;
    await route.continue();
  });
  return release;
}

test("what is typed for a dialog that is still loading does not reach the terminal", async ({
  page,
  serve,
}) => {
  const server = await serve({});
  const release = await hold(page, DIALOGS);
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await person.types("echo kept");
  await page.keyboard.press("F1");
  await page.keyboard.type("stray");
  const palette = page.getByRole("dialog", { name: "Command palette" });
  await expect(palette).toHaveCount(0);
  release();
  await expect(palette.getByRole("combobox")).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(palette).toHaveCount(0);
  await page.keyboard.type("-on");
  await person.sees("echo kept-on");
});

test("a key closes a dialog before it is loaded, and the focus returns", async ({ page, serve }) => {
  const server = await serve({});
  const release = await hold(page, DIALOGS);
  const person = await visit(page, server, await server.session());
  await person.prompt.fill("draft");
  await page.keyboard.press("Control+,");
  await expect(person.prompt).not.toBeFocused();
  await page.keyboard.press("Escape");
  await expect(person.prompt).toBeFocused();
  await page.keyboard.press("F1");
  release();
  await expect(page.getByRole("dialog", { name: "Command palette" })).toBeVisible();
  await expect(page.getByRole("dialog")).toHaveCount(1);
});

test("a dialog whose code did not arrive opens after a reload, which keeps the draft", async ({
  page,
  serve,
}) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await page.route(DIALOGS, (route) => route.abort());
  await page.reload();
  await person.prompt.fill("restart web1");
  await person.button("Settings").click();
  const alert = page.getByRole("alert");
  await expect(alert).toContainText("The dialog could not be shown");
  await page.unroute(DIALOGS);
  await alert.getByRole("button", { name: "Reload the page" }).click();
  await expect(alert).toHaveCount(0);
  await expect(person.prompt).toHaveValue("restart web1");
  await person.button("Settings").click();
  await expect(page.getByRole("dialog", { name: "Settings" })).toBeVisible();
});

test("an empty session works before the code of its messages is there, another one waits for it", async ({
  page,
  serve,
}) => {
  const server = await serve({ script: { disk: [say("The disk is **half** full.")] } });
  const id = await server.session();
  const release = await hold(page, PARTS);
  const person = await visit(page, server, id);
  await expect(page.getByText("Describe a task.")).toBeVisible();
  await person.says("disk");
  await expect(person.conversation).toContainText("Opening the session…");
  release();
  await expect(person.conversation.locator(".answer strong")).toHaveText("half");
});

test("the code of an answer is colored, and every file that the page asks for is there", async ({
  page,
  serve,
}) => {
  const server = await serve({
    script: { clean: [say("Run this:\n\n```sh\nif true; then echo done; fi\n```")] },
  });
  const missing: string[] = [];
  page.on("response", (response) => {
    if (response.status() >= 400) missing.push(response.url());
  });
  const person = await visit(page, server, await server.session());
  await person.says("clean up");
  await expect(person.conversation.locator(".answer .hl-keyword").first()).toHaveText("if");
  await person.sees("here:");
  expect(missing).toEqual([]);
});

test("the code of messages is loaded together with the page if its address names a session", async ({
  page,
  serve,
}) => {
  const server = await serve({});
  const id = await server.session();
  await enter(page.context(), server);
  // The page's script, which does not run yet, would load that code later anyway.
  const release = await hold(page, "**/assets/index-*.js");
  const preloaded = page.locator("head link[rel=modulepreload][href*='/assets/parts-']");
  await page.goto(`${server.url}/`, { waitUntil: "commit" });
  await expect(page.locator(".shell .welcome")).toBeVisible();
  await expect(preloaded).toHaveCount(0);
  await page.goto(`${server.url}/#/s/${id}`, { waitUntil: "commit" });
  await page.reload({ waitUntil: "commit" });
  await expect(preloaded).toHaveCount(1);
  await expect(page.locator(".shell .list")).toHaveText("Opening the session…");
  release();
  await expect(new Person(page).prompt).toBeVisible();
  await expect(page.locator(".shell")).toHaveCount(0);
});

test("without JavaScript, the page says that it needs it, and shows no outline", async ({
  browser,
  serve,
}) => {
  const server = await serve({});
  const context = await browser.newContext({ javaScriptEnabled: false });
  await enter(context, server);
  const page = await context.newPage();
  await page.goto(`${server.url}/`);
  const told = page.locator("noscript p");
  await expect(told).toContainText("This page needs JavaScript.");
  await expect(told).toBeInViewport({ ratio: 1 });
  await expect(page.locator(".shell, .no-script").filter({ visible: true })).toHaveCount(0);
  await context.close();
});

for (const [file, url] of [
  ["its script", "**/assets/index-*.js"],
  ["any script", "**/*.js"],
] as const) {
  test(`a page that does not get ${file} says so, and shows no outline`, async ({ page, serve }) => {
    const server = await serve({});
    await enter(page.context(), server);
    await page.route(url, (route) => route.abort());
    await page.goto(`${server.url}/`);
    await expect(page.getByRole("alert")).toHaveText(/^\s*The server did not send the page's script\./);
    await expect(page.getByRole("alert")).toBeInViewport({ ratio: 1 });
    await expect(page.locator(".shell")).toBeHidden();
  });
}

test("a page that lacks only the script of the first paint is drawn by its own", async ({ page, serve }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  const server = await serve({});
  await enter(page.context(), server);
  await page.route("**/theme.js", (route) => route.abort());
  const release = await hold(page, "**/assets/index-*.js");
  await page.goto(`${server.url}/`, { waitUntil: "commit" });
  await expect(page.locator(".shell")).toBeAttached();
  await expect(page.locator(".shell")).toBeHidden();
  await expect(page.locator(".no-script")).toBeHidden();
  release();
  await expect(page.getByRole("button", { name: "New session" }).first()).toBeVisible();
  await expect(page.locator(".no-script")).toHaveCount(0);
});
