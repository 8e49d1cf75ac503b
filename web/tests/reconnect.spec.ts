/** Recovery after reloads, restarts and blocked sockets. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { call, expect, say, test, visit } from "./fixtures";

const waits = (more: string) => `until [ -e go ]; do sleep 0.05; done; echo ${more} >> lines`;
const script = {
  "the long job": [call("bash", { command: waits("ran") }, { content: "I begin." }), say("It is **done**.")],
};

test("a reload in the middle of a turn continues it", async ({ page, serve }) => {
  const server = await serve({ script, args: ["--approve", "auto"] });
  const person = await visit(page, server, await server.session());
  await person.says("the long job");
  await expect(person.conversation).toContainText("running until");
  await page.reload();
  await expect(person.conversation).toContainText("I begin.");
  await expect(person.conversation).toContainText("running until");
  await expect(page.getByRole("article", { name: "You" })).toHaveCount(1);
  writeFileSync(join(server.work, "go"), "");
  await expect(person.conversation.locator("strong", { hasText: "done" })).toBeVisible();
  await expect(person.steps).toHaveCount(1);
  expect(readFileSync(join(server.work, "lines"), "utf8")).toBe("ran\n");
});

test("the page reconnects to a server that was killed and restarted, and nothing runs twice", async ({
  page,
  serve,
}) => {
  const server = await serve({ script, args: ["--approve", "auto"] });
  const person = await visit(page, server, await server.session());
  await person.says("the long job");
  await expect(person.conversation).toContainText("running until");
  await server.restart();
  await expect(person.conversation).toContainText("Agent paused. Click Resume to continue.");
  await expect(person.steps.first()).toContainText(/interrupted/i);
  await person.button(/Resume/).click();
  await expect(person.conversation.locator("strong", { hasText: "done" })).toBeVisible();
  expect(existsSync(join(server.work, "lines"))).toBe(false);
});

for (const blocks of ["refuses", "drops", "swallows"] as const) {
  test(`behind a proxy that ${blocks} sockets, all goes on over events and requests`, async ({
    page,
    serve,
    blockingProxy,
  }) => {
    const proxy = await blockingProxy(blocks);
    const server = await serve({
      script: { "make it": [call("bash", { command: "echo it > made" }), say("Made.")] },
      args: ["--allow-host", proxy.host],
    });
    proxy.leadTo(server.url);
    const person = await visit(page, { ...server, url: proxy.url }, await server.session());
    await expect(page.getByText("WebSocket blocked")).toBeVisible();
    expect(proxy.wanted()).toBeGreaterThan(0);
    await person.says("make it");
    await person.button(/^Run/).click();
    await expect(person.conversation).toContainText("Made.");
    expect(readFileSync(join(server.work, "made"), "utf8")).toBe("it\n");
    await person.sees("here:");
    await person.types("echo typed-$((1+1))\r");
    await person.sees("typed-2");
    await expect(page.getByRole("article", { name: "You" })).toHaveCount(1);
    await page.reload();
    await person.sees("typed-2");
    await expect(person.conversation).toContainText("Made.");
    await visit(page, { ...server, url: proxy.url }, await server.session());
    await expect(person.tabs).toHaveCount(2);
    await expect(page.getByText("WebSocket blocked")).toHaveCount(1);
  });
}

test("the page says at once that the browser is offline", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await expect(person.conversation).toContainText("The model is");
  await page.context().setOffline(true);
  await expect(page.getByRole("alert")).toContainText("Offline:", { timeout: 3_000 });
  await page.context().setOffline(false);
  await expect(page.getByRole("alert")).toHaveCount(0);
});

test("many tabs work behind a proxy that refuses sockets, and the list tells about those not shown", async ({
  page,
  serve,
  blockingProxy,
}) => {
  const proxy = await blockingProxy("refuses");
  const server = await serve({
    script: { "make it": [call("bash", { command: "echo it > made" }), say("Made.")] },
    args: ["--allow-host", proxy.host],
  });
  proxy.leadTo(server.url);
  const ids = [];
  for (let at = 0; at < 8; at += 1) ids.push(await server.session());
  let person = await visit(page, { ...server, url: proxy.url }, ids[0]);
  await expect(page.getByText("WebSocket blocked")).toBeVisible();
  for (const id of ids.slice(1)) person = await visit(page, { ...server, url: proxy.url }, id);
  await expect(person.tabs).toHaveCount(8);
  await person.says("make it");
  await expect(person.review).toContainText("echo it > made");
  for (const at of [0, 1, 2]) {
    await person.tabs.nth(at).click();
    await expect(person.conversation).toContainText("Describe a task.");
  }
  await expect(person.tabs.last()).toContainText("needs approval", { timeout: 15_000 });
  await person.tabs.last().click();
  await person.button(/^Run/).click();
  await expect(person.conversation).toContainText("Made.");
});

test("the terminal says that its shell ended with the server, and nobody controls it any more", async ({
  page,
  serve,
}) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await person.types("echo typed-$((1+1))\r");
  await person.sees("typed-2");
  await server.restart();
  await expect(page.getByText("The server restarted. This is a new shell")).toBeVisible();
  await expect(page.getByText("agent paused")).toHaveCount(0);
});
