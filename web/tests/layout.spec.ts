/** Tests of what stays readable and within reach, of the sessions' titles, and of sessions that wait elsewhere. */
import { writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { Locator, Page } from "@playwright/test";
import { call, expect, say, test, visit } from "./fixtures";

const PHONE = { width: 390, height: 844 };
const SMALL = { width: 360, height: 640 };
const NARROW = { width: 320, height: 568 };

/** Waits until nothing is wider than its place: neither the page nor the element, whose text may be cut by ellipsis. */
async function fits(page: Page, element: Locator): Promise<void> {
  await expect(element).toBeInViewport({ ratio: 1 });
  const { width } = page.viewportSize() ?? { width: 0 };
  await expect(async () => {
    const box = await element.boundingBox();
    expect(box?.x).toBeGreaterThanOrEqual(0);
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(width);
    expect(await element.evaluate((e) => e.scrollWidth - e.clientWidth)).toBeLessThanOrEqual(0);
  }).toPass();
}

test("the button that stops a job stays in view beside a long command", async ({ page, serve }) => {
  const command = `echo ${"a-long-argument ".repeat(6)}; sleep 1000`;
  const server = await serve({
    args: ["--approve", "auto"],
    script: { "serve it": [call("bash", { command, timeout_s: 600 }), say("It is up.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("serve it");
  await person.button("Run in background").click();
  await expect(person.conversation).toContainText("It is up.");
  for (const size of [{ width: 1440, height: 900 }, PHONE]) {
    await page.setViewportSize(size);
    await fits(page, person.button("Stop job 1"));
  }
  await person.button("Stop job 1").click();
  await expect(person.conversation).toContainText("job 1 ended: canceled");
});

test("the row of a job leads to the card of its command", async ({ page, serve }) => {
  const server = await serve({
    args: ["--approve", "auto"],
    script: {
      "keep watching": [
        call("bash", { command: "sleep 600", background: true }),
        say(Array.from({ length: 200 }, (_, at) => `line ${at}.`).join("\n\n")),
      ],
    },
  });
  const person = await visit(page, server, await server.session());
  await person.says("keep watching");
  await expect(person.conversation.getByText("line 199.")).toBeInViewport();
  await person.button(/^job 1 on/).click();
  await expect(page.getByRole("article", { name: "Call: bash" })).toBeInViewport();
  await expect(person.button(/^Jump to latest/)).toBeVisible();
});

test("on a phone, a long queued prompt can be taken back, and no mere icon repeats the last one", async ({
  page,
  serve,
}) => {
  await page.setViewportSize(PHONE);
  const server = await serve({
    args: ["--approve", "auto"],
    script: { "wait for it": [call("bash", { command: "until [ -e go ]; do sleep 0.05; done" })] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("wait for it");
  await expect(person.conversation).toContainText("running until");
  const long = "then restart web1 and look at all of its logs since yesterday evening";
  await person.says(long);
  const queued = page.getByRole("list", { name: "Queued prompts" });
  await fits(page, queued.getByRole("button", { name: "Edit" }));
  await queued.getByRole("button", { name: "Edit" }).click();
  await expect(queued).toHaveCount(0);
  await expect(person.prompt).toHaveValue(long);
  await person.button(/Stop/).click();
  await expect(person.button("New chat")).toBeVisible();
  const retry = person.button("Retry without history");
  await expect(retry).toBeHidden();
  await page.setViewportSize({ width: 1440, height: 900 });
  await expect(retry).toBeVisible();
});

test("the choice of a theme fits on a narrow phone", async ({ browser, serve }) => {
  const server = await serve({});
  const context = await browser.newContext({ viewport: NARROW, hasTouch: true, isMobile: true });
  const person = await visit(await context.newPage(), server);
  await person.button("Settings").tap();
  const choice = person.page.getByRole("group", { name: "Theme" });
  await expect(choice).toBeVisible();
  const beyond = () =>
    choice.evaluate((element) => {
      const section = element.closest(".setting")?.getBoundingClientRect().right ?? 0;
      const rights = [element, ...element.children].map((part) => part.getBoundingClientRect().right);
      return Math.max(...rights) - section;
    });
  await expect.poll(beyond).toBeLessThanOrEqual(0);
  await context.close();
});

test("a long path in a table stays within its cell", async ({ page, serve }) => {
  const path = `/srv/${"a-directory/".repeat(4)}configuration.toml`;
  const table = `| file | size |\n| --- | --- |\n| \`${path}\` | 1 KiB |\n| short words stay whole | 2 KiB |`;
  const server = await serve({ script: { "list it": [say(table)] } });
  const person = await visit(page, server, await server.session());
  await person.says("list it");
  const code = person.conversation.locator("td code");
  for (const width of [1400, 390]) {
    await page.setViewportSize({ width, height: 900 });
    const beyond = () =>
      code.evaluate((element) => {
        const cell = element.closest("td") as HTMLElement;
        const lines = [...element.getClientRects()];
        return Math.max(...lines.map(({ right }) => right)) - cell.getBoundingClientRect().right;
      });
    await expect.poll(beyond).toBeLessThan(0);
  }
});

test("many tabs keep their close buttons apart, and the strip shows the selected one", async ({
  page,
  serve,
}) => {
  await page.setViewportSize({ width: 1024, height: 768 });
  const server = await serve({});
  const person = await visit(page, server);
  for (let at = 0; at < 7; at += 1) {
    const id = await server.session();
    await server.request("POST", `/api/agent/sessions/${id}/label`, {
      title: `Session ${at} with a long name`,
    });
    await page.goto(`${server.url}/#/s/${id}`);
    await expect(person.tabs).toHaveCount(at + 1);
  }
  await expect(person.tabs.last()).toContainText("Session 6");
  const strip = page.getByRole("tablist");
  await expect(strip).toHaveClass(/more-before/);
  await expect(person.tabs.last()).toBeInViewport({ ratio: 0.99 });
  const boxes = await person.tabs.evaluateAll((tabs) =>
    tabs.map((tab) => {
      const { left, right } = tab.getBoundingClientRect();
      const close = tab.querySelector(".close")?.getBoundingClientRect();
      return { left, right, close: close && [close.left, close.right] };
    }),
  );
  for (const [at, { left, right, close }] of boxes.entries()) {
    expect(right - left).toBeGreaterThanOrEqual(112);
    expect(close?.[0]).toBeGreaterThan(left);
    expect(close?.[1]).toBeLessThanOrEqual(right);
    expect(boxes[at + 1]?.left ?? right).toBeGreaterThanOrEqual(right);
  }
  // The first tab is reached by the mouse wheel, and closed by its own button.
  await strip.hover();
  await page.mouse.wheel(0, -3_000);
  await expect(strip).toHaveClass(/more-after/);
  await person.tabs.first().locator(".close").click();
  await expect(person.tabs).toHaveCount(6);
  await expect(person.tabs.first()).toContainText("Session 1 ");
});

test("a session has one title: in its tab, in the list and in the browser", async ({ page, serve }) => {
  const server = await serve({ script: { first: [say("One.")], second: [say("Two.")] } });
  const person = await visit(page, server, await server.session());
  await expect(person.tabs).toContainText("New session");
  await person.says("first question");
  await expect(person.conversation).toContainText("One.");
  await person.says("second question");
  await expect(person.conversation).toContainText("Two.");
  await expect(person.tabs).toContainText("first question");
  await expect(page).toHaveTitle("first question – sysop");
  await page.keyboard.press("Alt+s");
  const list = page.getByRole("navigation", { name: "Sessions" });
  await list.getByRole("button", { name: "Actions for first question" }).click();
  await list.getByRole("button", { name: "Rename" }).click();
  await page.keyboard.type("The questions");
  await page.keyboard.press("Enter");
  await expect(person.tabs).toContainText("The questions");
  await expect(page).toHaveTitle("The questions – sysop");
  await page.setViewportSize(PHONE);
  await expect(person.tabs.getByText("The questions")).toBeInViewport({ ratio: 1 });
});

test("a session that waits elsewhere is shown and opened from the start screen", async ({ page, serve }) => {
  const server = await serve({
    script: { "touch it": [call("bash", { command: "touch made" }), say("Done.")] },
  });
  const waiting = await server.session();
  const said = await server.request("POST", `/api/agent/sessions/${waiting}/messages`, {
    content: "touch it please",
  });
  expect(said.ok).toBe(true);
  await expect(async () => {
    const rows = await (await server.request("GET", "/api/agent/sessions")).json();
    expect(rows.sessions).toMatchObject([{ state: "waiting" }]);
  }).toPass();
  await server.session(); // newer, and it does not wait
  await page.setViewportSize(PHONE);
  const person = await visit(page, server);
  const start = page.locator(".welcome");
  await expect(start).toContainText("1 session needs you: touch it please");
  await expect(page).toHaveTitle("(1) sysop");
  await person.button("Sessions, 1 waiting for you").click();
  const list = page.getByRole("navigation", { name: "Sessions" });
  await expect(list.getByRole("listitem").first()).toContainText("touch it please");
  await page.keyboard.press("Escape");
  await person.button("Review").click();
  await expect(person.review).toBeVisible();
  await expect(page).toHaveTitle("(1) touch it please – sysop");
  await person.button(/^Run/).click();
  await expect(person.conversation).toContainText("Done.");
  await expect(page).toHaveTitle("touch it please – sysop");
});

test("the start screen tells what a session may do on which machine", async ({ page, serve }) => {
  const server = await serve({ args: ["--approve", "never"] });
  const person = await visit(page, server);
  const about = page.locator(".about");
  await expect(about).toContainText(`works on ${hostname()} in ${server.work}`);
  await expect(about).toContainText("Read-only: other steps are proposed, not run.");
  await person.button("New session").first().click();
  const dialog = page.getByRole("dialog", { name: "New session" });
  await expect(dialog.getByLabel("Approval mode")).toContainText("Server default (never)");
});

test("columns of an output stay columns on a phone, and no line marks a side that hides nothing", async ({
  browser,
  serve,
}) => {
  const context = await browser.newContext({ viewport: PHONE, deviceScaleFactor: 2 });
  const page = await context.newPage();
  const wide = `echo ${"column ".repeat(30)}`;
  const server = await serve({
    args: ["--approve", "auto"],
    script: { "show it": [call("bash", { command: wide }), say("Wide.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("show it");
  await expect(person.conversation).toContainText("Wide.");
  await person.says("!echo short");
  const columns = person.conversation.locator(".output").first();
  const short = person.conversation.locator(".output").nth(1);
  await expect(short).toHaveText("short");
  const height = await short.evaluate((box) => box.clientHeight);
  const shape = await columns.evaluate((box) => [box.clientHeight, box.scrollWidth > box.clientWidth]);
  expect(shape).toEqual([height, true]);
  // An edge between pixels.
  await short.evaluate((element) => {
    element.style.width = "300px";
    element.style.marginLeft = "0.3px";
  });
  const picture = await short.screenshot();
  const shades = await page.evaluate(async (png) => {
    const image = new Image();
    image.src = `data:image/png;base64,${png}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), {
      width: image.width,
      height: image.height,
    });
    const context = canvas.getContext("2d");
    context?.drawImage(image, 0, 0);
    const right = context?.getImageData(image.width / 2, image.height / 2, image.width / 2 - 4, 1).data ?? [];
    return new Set(new Uint32Array(Uint8ClampedArray.from(right).buffer)).size;
  }, picture.toString("base64"));
  expect(shades).toBe(1);
  await context.close();
});

test("the answers that last share a row", async ({ page, serve }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  const command = `touch ${"a-long-name ".repeat(5)}`;
  const server = await serve({ script: { "make it": [call("bash", { command })] } });
  const person = await visit(page, server, await server.session());
  await person.says("make it");
  const [session, always] = [person.button(/^Allow for session/), person.button("Always…")];
  const middle = async (button: Locator) => {
    const box = await button.boundingBox();
    return Math.round((box?.y ?? 0) + (box?.height ?? 0) / 2);
  };
  await expect(always).toBeVisible();
  await expect.poll(async () => Math.abs((await middle(always)) - (await middle(session)))).toBeLessThan(2);
  await always.click();
  await expect(person.review).toContainText("in every directory");
});

test("a task on the start screen opens a session that does it", async ({ page, serve }) => {
  const server = await serve({ script: { "look around": [say("All is well.")] } });
  const person = await visit(page, server);
  await page.getByRole("textbox", { name: "Task for a new session" }).fill("look around");
  await page.keyboard.press("Enter");
  await expect(person.conversation).toContainText("All is well.");
  await expect(person.tabs).toContainText("look around");
  await expect(person.prompt).toBeFocused();
});

test("the button of the offline banner holds its words on a phone", async ({ page, context, serve }) => {
  const server = await serve({});
  await page.setViewportSize(PHONE);
  const person = await visit(page, server, await server.session());
  await page.routeWebSocket("**/stream", (socket) => socket.close());
  await page.route("**/api/agent/**", (route) => route.abort());
  await context.setOffline(true);
  await page.reload().catch(() => undefined);
  await context.setOffline(false);
  await page.reload();
  await fits(page, person.button("Retry now"));
});

test("the terminal is folded until it is used, and leaves most of the page to the conversation", async ({
  page,
  serve,
}) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  const server = await serve({ script: { hello: [say("Hello.")] } });
  const person = await visit(page, server, await server.session(), "unused");
  await person.says("hello");
  await expect(person.conversation).toContainText("Hello.");
  const terminal = page.getByRole("region", { name: "Terminal" });
  await expect(terminal).toHaveCount(0);
  const button = page.getByRole("button", { name: "Terminal", exact: true });
  await expect(button).toHaveAttribute("aria-pressed", "false");
  await button.click();
  await person.sees("here:");
  const share = ((await person.conversation.boundingBox())?.width ?? 0) / 1440;
  expect(share).toBeGreaterThan(0.5);
  // The choice is remembered.
  await page.reload();
  await person.sees("here:");
  await page.keyboard.press("Alt+t");
  await page.reload();
  await expect(person.conversation).toContainText("Hello.");
  await expect(terminal).toHaveCount(0);
});

test("a call that uses the terminal opens it", async ({ page, serve }) => {
  const server = await serve({
    args: ["--approve", "auto", "--profile", "operator"],
    script: {
      "in the terminal": [call("run_command", { command: "echo so-$((40+2))", reasoning: "" }), say("Ran.")],
    },
  });
  const person = await visit(page, server, await server.session(), "unused");
  const terminal = page.getByRole("region", { name: "Terminal" });
  await expect(terminal).toHaveCount(0);
  await person.says("in the terminal");
  await person.sees("so-42");
});

test("long words do not leave a proposal, and its findings have a column of their own on a phone", async ({
  page,
  serve,
}) => {
  const word = "a".repeat(300);
  const command = `rm -rf /srv/thumbnails/${"b".repeat(60)}`;
  const server = await serve({
    script: { wipe: [call("bash", { command, reason: `Because of ${word}.` }), say("Done.")] },
  });
  await page.setViewportSize(PHONE);
  const person = await visit(page, server, await server.session());
  await person.says("wipe");
  await expect(person.review).toBeVisible();
  expect(await person.review.evaluate((e) => e.scrollWidth - e.clientWidth)).toBe(0);
  const finding = person.review.locator(".findings li").first();
  const [name, why] = await Promise.all([
    finding.locator("code").boundingBox(),
    finding.locator("span").boundingBox(),
  ]);
  expect(why?.y).toBeGreaterThan(name?.y ?? 0);
  expect(why?.x).toBe(name?.x);
  expect(name?.height).toBeLessThan(30); // one row
});

test("a phone says that reasons are below a command that has been read", async ({ page, serve }) => {
  const name = "/tmp/a-rather-long-name/of-a-directory/x1";
  const command = `curl -s http://127.0.0.1:1/install.sh | tee ${name} && echo "${"words ".repeat(24)}" > ${name}`;
  const server = await serve({ script: { "get it": [call("bash", { command }), say("Done.")] } });
  await page.setViewportSize(PHONE);
  const person = await visit(page, server, await server.session());
  await person.says("get it");
  await expect(person.review.getByRole("button", { name: /^Run/ })).toBeEnabled();
  const cue = person.review.getByRole("button", { name: "reasons below" });
  await expect(cue).toHaveCount(0);
  await page.setViewportSize({ width: PHONE.width, height: 600 });
  await expect(cue).toBeInViewport();
  await expect(async () => {
    if (await cue.isVisible()) await cue.click({ timeout: 500 });
    await expect(cue).toHaveCount(0, { timeout: 500 });
  }).toPass();
  await expect(person.review.locator(".with-end .findings li").last()).toBeInViewport({ ratio: 1 });
});

test("on the smallest phones, a dangerous command can be run only where its reasons are in view", async ({
  page,
  serve,
}) => {
  const command = [
    ...Array.from({ length: 6 }, (_, at) => `echo "step ${at} of the release"`),
    "rm -rf /srv/thumbnails",
    "dd if=/dev/zero of=/dev/sda",
  ].join("\n");
  const server = await serve({
    script: { wipe: [call("bash", { command, reason: "They are old. ".repeat(8) }), say("Done.")] },
  });
  await page.setViewportSize({ width: 320, height: 640 });
  const person = await visit(page, server, await server.session());
  await expect(person.prompt).toHaveAttribute("placeholder", "Task…");
  await person.says("wipe");
  const run = person.review.getByRole("button", { name: /^Run/ });
  await expect(person.review.getByRole("button", { name: /^Keep reading/ })).toBeVisible();
  await expect(async () => {
    if (!(await run.isVisible())) await person.button(/^Keep reading/).click({ timeout: 500 });
    await expect(run).toBeVisible({ timeout: 500 });
  }).toPass();
  const worst = person.review.locator(".findings .dangerous").first();
  await expect(worst).toBeInViewport({ ratio: 0.8 });
  await person.button(/^Edit/).click();
  const field = page.getByRole("textbox", { name: "Edited command" });
  await field.fill(`${command}\nrm -rf /srv/previews`);
  await expect(person.button(/^Keep reading/)).toBeVisible();
  await expect(async () => {
    if (!(await run.isVisible())) await field.press("Control+Enter");
    await expect(run).toBeEnabled({ timeout: 500 });
  }).toPass();
  await expect(worst).toBeInViewport({ ratio: 0.8 });
});

test("Alt+S leads to the search, and on a touch screen it opens no keyboard", async ({
  page,
  browser,
  serve,
}) => {
  const server = await serve({});
  const person = await visit(page, server);
  await expect(page.getByText("No sessions yet")).toBeVisible();
  const search = page.getByRole("searchbox", { name: "Search sessions" });
  await page.keyboard.press("Alt+s");
  await expect(search).toBeFocused();
  await page.keyboard.press("Alt+s");
  await expect(search).toHaveCount(0);
  await person.button("Sessions").first().click();
  await expect(search).toBeFocused();

  const context = await browser.newContext({ viewport: PHONE, hasTouch: true, isMobile: true });
  const phone = await context.newPage();
  await phone.goto(`${server.url}/?token=${server.createToken("phone")}`);
  await phone.getByRole("button", { name: "Sessions" }).first().tap();
  await expect(phone.getByRole("searchbox", { name: "Search sessions" })).toBeVisible();
  await expect(phone.getByRole("searchbox", { name: "Search sessions" })).not.toBeFocused();
  await context.close();
});

test("a host whose description is its name is listed once in the dialog", async ({ page, serve }) => {
  const server = await serve({ config: "[hosts.web2]\n" });
  const person = await visit(page, server);
  await person.button("New session").first().click();
  const dialog = page.getByRole("dialog", { name: "New session" });
  await expect(dialog.getByRole("button", { name: "web2" })).toHaveText("web2");
});

/** Wipes a disk at its end, below what a phone shows. */
const LONG_COMMAND = [
  "for host in web1 web2 web3; do",
  '  ssh "$host" "sudo systemctl stop app && sudo rm -rf /srv/app/releases/2024-* && sudo systemctl start app"',
  "done",
  ...Array.from({ length: 12 }, (_, at) => `echo "step ${at} of the release"`),
  "rm -rf gone",
].join("\n");

for (const [name, viewport] of [
  ["on its side", { width: 844, height: 390 }],
  ["that is small", SMALL],
] as const) {
  test(`a phone ${name} shows a long command before it runs`, async ({ browser, serve }) => {
    const context = await browser.newContext({ viewport, hasTouch: true, isMobile: true });
    const page = await context.newPage();
    const server = await serve({
      script: {
        "tidy it": [call("bash", { command: LONG_COMMAND, reason: "Old. ".repeat(60) }), say("Tidy.")],
      },
    });
    const person = await visit(page, server, await server.session());
    await person.says("tidy it");
    const more = person.review.getByRole("button", { name: /^Keep reading \(\d+ pages?\)$/ });
    await expect(more).toBeVisible();
    await person.review.press("Shift+Y");
    await expect(more).toBeVisible();
    const answers = await person.review.locator("footer").boundingBox();
    const command = await person.review.locator("#review-what").boundingBox();
    if (!answers || !command) throw new Error("neither is shown");
    // At least two lines of it are above the answers, of which all have one row.
    expect(answers.y - command.y).toBeGreaterThan(40);
    expect(answers.height).toBeLessThan(70);
    expect(answers.y + answers.height).toBeLessThanOrEqual(viewport.height);
    const cue = person.review.getByRole("button", { name: /\d+ more lines?/ });
    await expect(cue).toBeInViewport();
    await expect(async () => {
      if (await more.isVisible()) await more.click({ timeout: 500 });
      await expect(person.review.getByRole("button", { name: /^Run/ })).toBeEnabled({ timeout: 500 });
    }).toPass();
    // Its reason is below it, at the end.
    await expect(person.review.getByText("rm -rf gone").last()).toBeInViewport();
    await context.close();
  });
}

test("a phone gives a long change the place of the messages", async ({ browser, serve }) => {
  const context = await browser.newContext({ viewport: PHONE, hasTouch: true, isMobile: true });
  const page = await context.newPage();
  const content = Array.from({ length: 80 }, (_, at) => `line ${at}\n`).join("");
  const server = await serve({
    script: { "write it": [call("write_file", { path: "a", content }), say("Written.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("write it");
  const more = person.review.getByRole("button", { name: /^Keep reading \([23] pages\)$/ });
  await expect(more).toBeVisible();
  const messages = await page.getByRole("region", { name: "Messages" }).boundingBox();
  expect(messages?.height).toBeLessThan(20);
  await expect(person.prompt).toBeInViewport({ ratio: 1 });
  await context.close();
});

test("a phone on its side shows the command for several hosts, and the prompt on request", async ({
  browser,
  serve,
  sshd,
}) => {
  const context = await browser.newContext({
    viewport: { width: 844, height: 390 },
    hasTouch: true,
    isMobile: true,
  });
  const page = await context.newPage();
  const far = await sshd("", "web1 web2");
  const server = await serve({
    env: { SYSOP_SSH_CONFIG: far.config },
    script: { "restart it": [call("bash", { command: "touch made" }), say("Done.")] },
  });
  const person = await visit(page, server, await server.session({ host: "web1,web2", root: far.home }));
  await person.says("restart it");
  const command = person.review.locator("#review-what");
  await expect(command).toHaveText("touch made");
  await expect(command).toBeInViewport({ ratio: 1 });
  const [what, answers] = [await command.boundingBox(), await person.review.locator("footer").boundingBox()];
  expect((what?.y ?? 0) + (what?.height ?? 0)).toBeLessThanOrEqual(answers?.y ?? 0);
  await person.review.press("Escape");
  await expect(person.prompt).toBeFocused();
  await expect(person.prompt).toBeInViewport({ ratio: 1 });
  // The terminal has the other half of the page.
  await person.button("Hosts").click();
  await expect(page.getByRole("region", { name: "Hosts", exact: true })).toBeVisible();
  await expect(person.review).toBeHidden();
  await context.close();
});

test("the lines of a long file that are out of view are counted, and keys scroll to them", async ({
  page,
  serve,
}) => {
  const content = Array.from({ length: 200 }, (_, at) => `line ${at}\n`).join("");
  const server = await serve({
    script: { "write it": [call("write_file", { path: "a", content }), say("Written.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("write it");
  await expect(person.review).toBeFocused();
  const below = async () => {
    const end = (await person.review.locator("footer").boundingBox())?.y ?? 0;
    const lines = person.review.locator(".row-line, .effect p");
    return lines.evaluateAll(
      (all, end) => all.filter((line) => line.getBoundingClientRect().y > end).length,
      end,
    );
  };
  const cue = person.review.getByRole("button", { name: /\d+ more lines?/ });
  const told = Number.parseInt((await cue.textContent()) ?? "", 10);
  expect(Math.abs(told - (await below()))).toBeLessThan(5);
  await page.keyboard.press("PageDown");
  await expect.poll(below).toBeLessThan(told - 10);
  await page.keyboard.press("End");
  await expect.poll(below).toBe(0);
  await page.keyboard.press("Home");
  await expect.poll(below).toBeGreaterThan(told - 5);
});

test("six tabs do not make the page wider than a phone", async ({ browser, serve }) => {
  const context = await browser.newContext({ viewport: PHONE, hasTouch: true, isMobile: true });
  const page = await context.newPage();
  const server = await serve({});
  const person = await visit(page, server);
  for (let at = 0; at < 6; at += 1) {
    await page.goto(`${server.url}/#/s/${await server.session()}`);
    await expect(person.tabs).toHaveCount(at + 1);
  }
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(PHONE.width);
  expect(await page.evaluate(() => innerWidth)).toBe(PHONE.width);
  await context.close();
});

test("the toolbar names the machine, in one row on every screen", async ({ page, serve, sshd }) => {
  const far = await sshd("", "web1 web2");
  const server = await serve({
    env: { SYSOP_SSH_CONFIG: far.config },
    script: { "restart it": [call("bash", { command: "touch made" }), say("Done.")] },
  });
  const toolbar = page.getByRole("toolbar", { name: "Turn" });
  for (const [host, name, names] of [
    ["web1", "web1", "Tools run on web1"],
    ["web1,web2", "2 hosts", "Tools run on 2 hosts: web1, web2"],
  ] as const) {
    const person = await visit(page, server, await server.session({ host, root: far.home }));
    await person.says("restart it");
    await expect(person.review).toBeVisible();
    for (const size of [{ width: 1440, height: 900 }, { width: 1024, height: 768 }, PHONE, SMALL]) {
      await page.setViewportSize(size);
      const shown = toolbar.getByTitle(names);
      await expect(shown).toContainText(name);
      await fits(page, shown);
      await fits(page, toolbar);
      await expect(async () => expect((await toolbar.boundingBox())?.height).toBeLessThan(64)).toPass();
    }
    await person.button(/^Stop/).click();
    await expect(person.review).toHaveCount(0);
    await page.setViewportSize({ width: 1440, height: 900 });
    await expect(person.button("New chat")).toBeVisible();
    await expect(async () => expect((await toolbar.boundingBox())?.height).toBeLessThan(64)).toPass();
  }
});

test("beside a terminal, the end of a turn does not move the conversation", async ({ page, serve }) => {
  await page.setViewportSize({ width: 1024, height: 768 });
  const server = await serve({
    args: ["--approve", "auto"],
    env: { SYSOP_MODEL: "openai/a-model-with-a-rather-long-name" },
    script: { wait: [call("bash", { command: "until [ -e go ]; do sleep 0.05; done" }), say("Done.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  const toolbar = page.getByRole("toolbar", { name: "Turn" });
  const model = toolbar.getByRole("combobox", { name: "Model" });
  await expect(model.locator("option:checked")).toHaveText("a-model-with-a-rather-long-name");
  await expect(toolbar.getByTitle(/: openai\/a-model/)).toBeVisible();
  await person.says("wait");
  await expect(person.conversation).toContainText("running until");
  const running = (await toolbar.boundingBox())?.height;
  writeFileSync(join(server.work, "go"), "");
  await expect(person.conversation).toContainText("Done.");
  await expect(person.button("New chat")).toBeVisible();
  expect((await toolbar.boundingBox())?.height).toBe(running);
});

test("a new session begins with its title in a low window", async ({ page, serve }) => {
  await page.setViewportSize({ width: 720, height: 400 });
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await expect(person.button("How full is the disk?")).toBeAttached();
  const title = page.getByRole("heading", { name: "Describe a task." });
  await expect(title).toBeInViewport({ ratio: 1 });
  await page.setViewportSize({ width: 720, height: 380 });
  await expect(title).toBeInViewport({ ratio: 1 });
});

test("a conversation is one centered column, and its menu stays beside the number of sessions that wait", async ({
  page,
  serve,
}) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  const server = await serve({
    script: { "make it": [call("bash", { command: "touch made" }), say("Made.")] },
  });
  const waiting = await server.session();
  await server.request("POST", `/api/agent/sessions/${waiting}/messages`, { content: "make it" });
  const person = await visit(page, server, await server.session(), "unused");
  await person.says("make it");
  await expect(person.review).toBeVisible();
  const sides = async (part: Locator) => {
    const { x, width } = (await part.boundingBox()) ?? { x: 0, width: 0 };
    return [Math.round(x), Math.round(x + width)];
  };
  const [left, right] = await sides(page.getByRole("article", { name: "You" }));
  expect([(left ?? 0) + (right ?? 0), (right ?? 0) - (left ?? 0)]).toEqual([1440, 860]);
  expect(await sides(person.review)).toEqual([left, right]);
  expect(await sides(page.locator(".prompt-line"))).toEqual([left, right]);
  const menu = person.button("Sessions, 1 waiting for you");
  const [icon, badge] = [await sides(menu.locator("svg")), await sides(menu.locator(".badge-count"))];
  expect(badge[0]).toBeGreaterThanOrEqual(icon[1] ?? 0);
});

test("an end that the dock hides has a cue, and the keys lead to it", async ({ page, serve }) => {
  const server = await serve({ script: { "make it": [call("bash", { command: "touch made" })] } });
  await page.setViewportSize({ width: 1024, height: 520 });
  const person = await visit(page, server, await server.session());
  await person.says("make it");
  await expect(person.review).toBeFocused();
  const cue = () => page.locator(".dock").evaluate((dock) => getComputedStyle(dock, "::after").content);
  expect(await cue()).toBe("none");
  // As with errors and tasks above the card.
  await page.locator(".dock").evaluate((dock) => {
    const above = document.createElement("div");
    above.style.cssText = "flex: none; height: 380px";
    dock.prepend(above);
  });
  await expect.poll(cue).toContain("goes on below");
  await page.keyboard.press("End");
  await expect.poll(cue).toBe("none");
});

test("a long change takes the place of the messages in a large window too, and a short one does not", async ({
  page,
  serve,
}) => {
  const change = (lines: number) =>
    call("write_file", {
      path: `a${lines}`,
      content: Array.from({ length: lines }, (_, at) => `line ${at}\n`).join(""),
    });
  const server = await serve({ script: { "write much": [change(200)], "write little": [change(3)] } });
  await page.setViewportSize({ width: 1440, height: 900 });
  const messages = page.getByRole("region", { name: "Messages" });
  const heightAt = async (prompt: string) => {
    const person = await visit(page, server, await server.session());
    await person.says(prompt);
    await expect(person.review).toBeVisible();
    return (await messages.boundingBox())?.height ?? 0;
  };
  expect(await heightAt("write much")).toBeLessThan(20);
  expect(await heightAt("write little")).toBeGreaterThan(300);
});

test("on the smallest phones, the active tab has its name and no button that closes it", async ({
  page,
  serve,
}) => {
  const server = await serve({ script: { "look at disks": [say("Fine.")] } });
  await page.setViewportSize({ width: 320, height: 640 });
  const person = await visit(page, server, await server.session());
  await person.says("look at disks");
  await expect(person.conversation).toContainText("Fine.");
  const name = person.tabs.first().locator(".name");
  await expect(name).toHaveText("look at disks");
  await expect(person.tabs.first().locator(".close")).toBeHidden();
  expect(await name.evaluate((element) => element.clientWidth)).toBeGreaterThan(60);
});
