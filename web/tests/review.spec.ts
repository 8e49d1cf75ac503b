/** Review: edited, answered in another tab, refused; by keys. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { call, expect, say, test, visit } from "./fixtures";

const script = {
  "make it": [
    call("bash", { command: "echo proposed > made", reason: "As you wished." }),
    say("It is made."),
  ],
};

test("a proposal is edited, and what was written runs", async ({ page, serve }) => {
  const server = await serve({ script });
  const person = await visit(page, server, await server.session());
  await person.says("make it");
  await expect(person.review).toContainText("echo proposed > made");
  await expect(person.review).toContainText("on this machine");
  await expect(person.button(/^For this session/)).toContainText("echo proposed > made");
  expect(existsSync(join(server.work, "made"))).toBe(false);
  await person.button(/^Edit/).click();
  const field = page.getByRole("textbox", { name: "What to run instead" });
  await field.fill("echo edited > made");
  await field.press("Enter");
  await expect(person.conversation).toContainText("It is made.");
  await expect(person.steps.first()).toContainText("edited; proposed was");
  expect(readFileSync(join(server.work, "made"), "utf8")).toBe("edited\n");
});

test("a proposal is refused by keys, with a word to the model", async ({ page, serve }) => {
  const server = await serve({ script });
  const person = await visit(page, server, await server.session());
  await person.says("make it");
  await expect(person.review).toBeFocused();
  await expect(async () => {
    await page.keyboard.press("r"); // nothing counts that was typed before one could read it
    await expect(page.getByRole("textbox", { name: /A word to the model/ })).toBeFocused({ timeout: 200 });
  }).toPass();
  await page.keyboard.type("not here");
  await page.keyboard.press("Enter");
  await expect(person.steps.first()).toContainText("not here");
  await expect(person.conversation).toContainText("It is made.");
  expect(existsSync(join(server.work, "made"))).toBe(false);
});

test("two tabs are in step, and a decision in one closes the card in the other", async ({
  page,
  context,
  serve,
}) => {
  const server = await serve({ script });
  const id = await server.session();
  const here = await visit(page, server, id);
  const there = await visit(await context.newPage(), server, id);
  await here.says("make it");
  await expect(here.review).toContainText("echo proposed > made");
  await expect(there.review).toContainText("echo proposed > made");
  await there.button(/^Run/).click();
  await expect(here.review).toHaveCount(0);
  for (const person of [here, there]) {
    await expect(person.steps.first()).toContainText(/allowed by \S+/);
    await expect(person.conversation).toContainText("It is made.");
    await expect(person.page.getByRole("article", { name: "You" })).toHaveCount(1);
  }
  expect(readFileSync(join(server.work, "made"), "utf8")).toBe("proposed\n");
});
