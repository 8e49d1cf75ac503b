/** Tests of what stays readable and within reach, of the sessions' titles, and of sessions that wait elsewhere. */
import type { Locator, Page } from "@playwright/test";
import { call, expect, say, test, visit } from "./fixtures";

const PHONE = { width: 390, height: 844 };

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
});

test("columns of output stay columns on a phone", async ({ page, serve }) => {
  const command =
    "printf 'Filesystem  Size  Used  Avail  Use%%  Mounted on  and some more columns  of it\\n'";
  const server = await serve({
    args: ["--approve", "auto"],
    script: { disk: [call("bash", { command }), say("Done.")] },
  });
  await page.setViewportSize(PHONE);
  const person = await visit(page, server, await server.session());
  await person.says("disk");
  await expect(person.conversation).toContainText("Done.");
  const output = person.conversation.getByRole("group", { name: "Output" }).first();
  await expect(output).toContainText("Mounted on");
  const { wider, lines } = await output.evaluate((e) => ({
    wider: e.scrollWidth > e.clientWidth,
    lines: e.clientHeight / Number.parseFloat(getComputedStyle(e).lineHeight),
  }));
  expect(wider).toBe(true);
  expect(lines).toBeLessThan(2.9); // with the padding
});

test("a host whose description is its name is listed once in the dialog", async ({ page, serve }) => {
  const server = await serve({ config: "[hosts.web2]\n" });
  await visit(page, server);
  await page.keyboard.press("Alt+n");
  const dialog = page.getByRole("dialog", { name: "New session" });
  await expect(dialog.getByRole("button", { name: "web2" })).toHaveText("web2");
});
