/** Secrets stay with the user, and untrusted content stays text. */
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { call, expect, say, test, visit } from "./fixtures";

test("a passphrase is masked, and is stored nowhere", async ({ page, serve, sshd }) => {
  const secret = `Sesam-page-${process.pid}`;
  const far = await sshd(secret);
  const server = await serve({
    args: ["--approve", "auto"],
    env: { SYSOP_SSH_CONFIG: far.config },
    script: { "look around": [call("bash", { command: "echo looked-around" }), say("I have looked.")] },
  });
  const frames: string[] = [];
  page.on("websocket", (socket) => {
    socket.on("framereceived", ({ payload }) => frames.push(String(payload)));
  });
  const person = await visit(page, server, await server.session({ host: "far", root: far.home }));
  const field = page.getByLabel(/^Secret/).first();
  await person.says("look around");
  await expect(field).toBeVisible();
  await expect(field).toHaveAttribute("type", "password");
  await expect(page.getByRole("form", { name: /ssh far/ }).first()).toContainText("passphrase");
  // More than one connection may ask; each is answered.
  await expect(async () => {
    if (await field.isVisible()) {
      await field.fill(secret);
      await field.press("Enter");
    }
    await expect(person.conversation).toContainText("I have looked.", { timeout: 500 });
  }).toPass();
  expect(frames.length).toBeGreaterThan(0);
  expect(frames.join("\n")).toContain("looked-around");
  expect(frames.join("\n")).not.toContain(secret);
  const kept = await page.evaluate(() => {
    const stores = [localStorage, sessionStorage].map((store) => JSON.stringify(store));
    const fields = [...document.querySelectorAll("input,textarea")].map(
      (field) => (field as HTMLInputElement).value,
    );
    return [document.documentElement.outerHTML, ...stores, ...fields].join("\n");
  });
  expect(kept).toContain("looked-around");
  expect(kept).not.toContain(secret);
  expect(server.said()).not.toContain(secret);
  expect(holders(server.home, secret)).toEqual([]);
  expect(holders(server.home, "looked-around").length).toBeGreaterThan(0);
});

/** Files below a directory that contain the text. */
function holders(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile())
    .filter((path) => readFileSync(path).includes(text));
}

const EVIL = [
  "<img src=x onerror=\"window.pwned='img'\">",
  "<script>window.pwned='script'</script>",
  "<svg/onload=\"window.pwned='svg'\">",
  "[a](javascript:window.pwned='link')",
  "[b](data:text/html,<script>1</script>)",
  "![c](https://evil.example/pixel.png)",
  "<a href=\"javascript:window.pwned='a'\">d</a>",
  "<iframe src=\"javascript:window.pwned='frame'\"></iframe>",
  "<cmd><img src=x onerror=\"window.pwned='cmd'\"></cmd>",
  "\u202Eevil\u202C\u200B",
].join("\n\n");

test("the output of models, files and commands is shown as text, whatever it contains", async ({
  page,
  serve,
}) => {
  const server = await serve({
    args: ["--approve", "auto"],
    script: {
      "be evil": [
        call("bash", { command: "cat evil.txt", reason: EVIL }, { content: EVIL }),
        call("task_complete", { summary: EVIL }),
      ],
    },
  });
  writeFileSync(join(server.work, "evil.txt"), `${EVIL}\n\u001b]0;pwned\u0007\u001b]52;c;cHduZWQ=\u0007`);
  const elsewhere = watch(page, server.url);
  const person = await visit(page, server, await server.session());
  await person.says(`be evil ${EVIL}`);
  await expect(page.getByRole("article", { name: "Task complete" })).toBeVisible();
  await person.types("cat evil.txt\r");
  await person.sees("onerror");
  const found = await page.evaluate(() => ({
    pwned: (window as unknown as { pwned?: string }).pwned,
    title: document.title,
    made: document.querySelectorAll("#root img, #root iframe, #root script, #root svg[onload]").length,
    links: [...document.querySelectorAll("#root a")]
      .map((link) => link.getAttribute("href") ?? "")
      .filter((href) => /^(javascript|data):/i.test(href)),
    handlers: [...document.querySelectorAll("#root *")].filter((element) =>
      [...element.attributes].some(({ name }) => name.startsWith("on")),
    ).length,
  }));
  expect(found).toMatchObject({ pwned: undefined, made: 0, links: [], handlers: 0 });
  expect(found.title).toMatch(/sysop$/);
  expect(elsewhere.asked).toEqual([]);
  // Characters that hide or reverse text are shown, not obeyed.
  expect(await person.conversation.innerText()).not.toMatch(/[\u202a-\u202e\u200b]/);
});

/** Requests of a page to other servers. */
function watch(page: Page, own: string): { asked: string[] } {
  const asked: string[] = [];
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(own) && !url.startsWith("data:") && !url.startsWith("blob:")) asked.push(url);
  });
  return { asked };
}

test("the page follows its content security policy, and no other page may embed or call it", async ({
  page,
  serve,
}) => {
  const server = await serve({});
  const broken: string[] = [];
  page.on("console", (message) => {
    if (/Content Security Policy/i.test(message.text())) broken.push(message.text());
  });
  const elsewhere = watch(page, server.url);
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  expect(broken).toEqual([]);
  expect(elsewhere.asked).toEqual([]);
  const index = await page.request.get(`${server.url}/`);
  const policy = index.headers()["content-security-policy"] ?? "";
  for (const rule of [
    "default-src 'self'",
    "script-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ]) {
    expect(policy).toContain(rule);
  }
  expect(policy).not.toMatch(/script-src[^;]*unsafe/);
  expect(index.headers()).toMatchObject({
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
  });
  const again = await page.request.get(`${server.url}/`, {
    headers: { "if-none-match": index.headers().etag ?? "" },
  });
  expect(again.status()).toBe(304);
  const script = /src="(\/assets\/[^"]+\.js)"/.exec(await index.text())?.[1] ?? "";
  const asset = await page.request.get(server.url + script);
  expect(asset.headers()).toMatchObject({
    "content-encoding": "gzip",
    "cache-control": "private, max-age=31536000, immutable",
  });
  expect((await fetch(server.url + script)).status).toBe(401);
});

test("signing in leads to the session that the address names", async ({ page, serve }) => {
  const server = await serve({});
  const address = `${server.url}/#/s/${await server.session()}`;
  await page.goto(address);
  for (const token of ["sysop_wrong", server.createToken("laptop")]) {
    await page.getByLabel("Access token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    if (token === "sysop_wrong") await expect(page.getByRole("alert")).toContainText("not valid");
  }
  await expect(page.getByRole("textbox", { name: "Describe a task" })).toBeVisible();
  expect(page.url()).toBe(address);
});

test("a wrong token can be followed by a new visit of its address, or by a pasted link", async ({
  page,
  serve,
}) => {
  const server = await serve({});
  await page.goto(server.url);
  const signIn = async (typed: string) => {
    await page.getByLabel("Access token").fill(typed);
    await page.getByRole("button", { name: "Sign in" }).click();
  };
  await signIn("sysop_wrong");
  await expect(page.getByRole("alert")).toContainText("not valid");
  await page.goto(`${server.url}/login`);
  expect(page.url()).toBe(`${server.url}/`);
  await signIn(`${server.url}/?token=${server.createToken("laptop")}`);
  await expect(page.getByText("Describe a task.")).toBeVisible();
});

test("signing out ends the login of this browser, and not its token", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.button("Settings").click();
  await person.button("Sign out").click();
  await expect(page.getByText("This browser is not signed in to this server.")).toBeVisible();
  expect(await page.context().cookies(server.url)).toEqual([]);
  expect((await server.request("GET", "/api/me")).status).toBe(200);
});
