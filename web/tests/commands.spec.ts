/** Commands that a person types into the page's prompt, and their completion. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, say, test, visit } from "./fixtures";

test("commands work on the page as in the terminal, or say where they do", async ({ page, serve }) => {
  const server = await serve({
    script: { "Look around this workspace": [say("Here is a proposal.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("/effort much");
  await expect(person.conversation).toContainText("Type /effort and one of none, minimal, low");
  await person.says("/effort high");
  await expect(person.conversation).toContainText(/effort.*high/i);
  await person.says("/trust");
  await expect(person.conversation).toContainText("start the server with --trust");
  await person.says("/init");
  await expect(person.conversation).toContainText("Here is a proposal.");
  await person.says("/nonsense now");
  await expect(person.conversation).toContainText("unknown command /nonsense; see /help");
  await expect(person.prompt).toHaveValue("/nonsense now");
  await person.says("/help");
  await expect(person.conversation).toContainText("!COMMAND: Run a command without the model");
  await person.says("/cost");
  await expect(person.conversation).toContainText(/tokens in.*out so far/);
});

test("the names of commands and skills are completed", async ({ page, serve }) => {
  const server = await serve({
    script: { hello: [say("Hello.")], "Check web1 now": [say("It is fine.")] },
  });
  const folder = join(server.home, ".config/sysop/commands");
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, "check.md"),
    "---\ndescription: Check a host\nargument-hint: HOST\n---\nCheck $1 now.\n",
  );
  const person = await visit(page, server, await server.session());
  const offered = page.getByRole("listbox", { name: "Commands" }).getByRole("option");
  await person.prompt.fill("/co");
  await expect(offered).toHaveText([/^\/compact/, /^\/cost/]);
  await person.prompt.press("ArrowDown");
  await person.prompt.press("Tab");
  await expect(person.prompt).toHaveValue("/cost");
  await expect(offered).toHaveCount(0);
  await person.prompt.fill("/");
  await person.prompt.press("Escape");
  await expect(offered).toHaveCount(0);

  await person.prompt.fill("/ch");
  await expect(offered).toHaveText([/^\/check HOST Check a host/]);
  await person.says("hello");
  await expect(person.conversation).toContainText("Hello.");
  await person.prompt.fill("/ch");
  await expect(offered).toHaveText([/^\/check HOST Check a host/]);
  await offered.first().click();
  await expect(person.prompt).toHaveValue("/check ");
  await person.prompt.pressSequentially("web1");
  await person.prompt.press("Enter");
  await expect(person.conversation).toContainText("It is fine.");
});

test("a prompt is visible while the server is asked for its skill", async ({ page, serve }) => {
  const server = await serve({ script: { "Check web1 now": [say("It is fine.")] } });
  const folder = join(server.home, ".config/sysop/commands");
  mkdirSync(folder, { recursive: true });
  const person = await visit(page, server, await server.session());
  await expect(page.getByText("Describe a task.")).toBeVisible();
  writeFileSync(join(folder, "check.md"), "Check $1 now.\n");
  let release = () => {};
  const released = new Promise<void>((done) => {
    release = done;
  });
  await page.route("**/skills", async (route) => {
    await released;
    await route.continue();
  });
  await person.says("/check web1");
  await person.says("and web2");
  const queued = page.getByRole("list", { name: "Queued prompts" }).getByRole("listitem");
  await expect(queued).toHaveText(["sending /check web1", "sending and web2"]);
  release();
  await expect(person.conversation).toContainText("It is fine.");
  await expect(queued).toHaveCount(0);
});
