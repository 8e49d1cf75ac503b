/** Plain chat as a state of the session: in every tab, after a reload and a restart, and nothing in a reply runs. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { call, expect, say, test, visit } from "./fixtures";

const ASKS_TO_RUN = /^Run this in the terminal on .+\? sysop does not check it\.$/;

test("a chat is the session's own, in every tab and after a reload", async ({ page, serve }) => {
  const server = await serve({
    args: ["--approve", "auto"],
    script: {
      "how full": [say("Use <cmd>echo from-a-chip</cmd> to see.")],
      "touch it": [call("bash", { command: "touch touched" }), say("Touched.")],
    },
  });
  const id = await server.session();
  const here = await visit(page, server, id);
  const there = await visit(await page.context().newPage(), server, id);
  const tabs = [here, there];
  const shows = async (prompt: string, mode: string) => {
    for (const person of tabs) {
      await expect(person.page.locator(".ps")).toHaveText(prompt);
      await expect(person.button(mode)).toBeVisible();
    }
  };
  await shows("agent:/>", "Agent mode");

  await here.button(/^(Agent|Chat) mode$/).click();
  await shows("gemini:/>", "Chat mode");
  await there.says("how full is the disk?");
  for (const person of tabs) {
    await expect(person.page.getByRole("article", { name: "You" })).toHaveText("how full is the disk?");
    await expect(person.conversation.getByText("echo from-a-chip", { exact: true })).toBeVisible();
    await expect(person.button(/Run in terminal/)).toHaveCount(1);
  }

  await server.restart();
  await page.reload();
  await expect(here.conversation.getByText("echo from-a-chip", { exact: true })).toBeVisible();
  await shows("gemini:/>", "Chat mode");
  await here.sees("here:");
  await here.button(/Run in terminal/).click();
  const ask = page.getByRole("alertdialog", { name: ASKS_TO_RUN });
  await expect(ask).toContainText("echo from-a-chip");
  await expect(ask.getByRole("button", { name: "Cancel" })).toBeFocused();
  await ask.getByRole("button", { name: "Run" }).click();
  await here.sees("from-a-chip");

  // A model that calls a tool anyway, in a mode in which calls that are not dangerous run without asking.
  await here.says("touch it");
  for (const person of tabs) {
    await expect(person.conversation).toContainText("nothing ran: this is a plain chat without tools");
    await expect(person.conversation).toContainText("No scenario fits.");
  }
  expect(existsSync(join(server.work, "touched"))).toBe(false);

  await there.button(/^(Agent|Chat) mode$/).click();
  await shows("agent:/>", "Agent mode");
  await here.says("touch it");
  await expect(there.conversation).toContainText("Touched.");
  expect(existsSync(join(server.work, "touched"))).toBe(true);
});

test("on a narrow phone, a tap on a command asks before it runs, and its buttons are apart", async ({
  browser,
  serve,
}) => {
  const command = "echo tapped-$((40+2)) and then some more words that make it long";
  const server = await serve({ script: { "how full": [say(`Use <cmd>${command}</cmd> to see.`)] } });
  const context = await browser.newContext({
    viewport: { width: 320, height: 568 },
    hasTouch: true,
    isMobile: true,
  });
  const page = await context.newPage();
  const person = await visit(page, server, await server.session());
  await person.says("how full is the disk?");
  const chip = person.conversation.locator(".chip");
  const [run, copy] = [
    chip.getByRole("button", { name: "Run in terminal" }),
    chip.getByRole("button").last(),
  ];
  await expect(run).toBeVisible();
  const [runs, copies] = [await run.boundingBox(), await copy.boundingBox()];
  if (!runs || !copies) throw new Error("they are not shown");
  expect(Math.min(runs.height, copies.height)).toBeGreaterThanOrEqual(44);
  expect(copies.x - runs.x - runs.width).toBeGreaterThanOrEqual(8);
  expect(copies.x + copies.width).toBeLessThanOrEqual(320);
  for (const part of [chip, run, copy]) {
    expect(await part.evaluate((element) => element.scrollWidth - element.clientWidth)).toBeLessThanOrEqual(
      0,
    );
  }

  await run.tap();
  const ask = page.getByRole("alertdialog", { name: ASKS_TO_RUN });
  await expect(ask).toContainText(command);
  await expect(ask.getByRole("button", { name: "Cancel" })).toBeFocused();
  await ask.getByRole("button", { name: "Cancel" }).tap();
  await expect(ask).toHaveCount(0);
  await person.button("Conversation").tap();
  await run.tap();
  await ask.getByRole("button", { name: "Run" }).tap();
  await person.sees(/tapped-42 and/);
  await context.close();
});

test("a change while the agent works takes effect with its next turn", async ({ page, serve }) => {
  const server = await serve({
    script: { "touch it": [call("bash", { command: "touch touched" }), say("Touched.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("touch it");
  await expect(person.review).toBeVisible();
  await person.button(/^(Agent|Chat) mode$/).click();
  await expect(page.locator(".ps")).toHaveText("gemini:/>");
  await expect(person.conversation).toContainText("chat mode: the next turn has no tools");
  await person.button(/^Run/).click();
  await expect(person.conversation).toContainText("Touched.");
  await person.says("touch it");
  await expect(person.conversation).toContainText("nothing ran: this is a plain chat without tools");
  await expect(person.review).toHaveCount(0);
});
