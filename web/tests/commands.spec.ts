/** Commands that a person types into the page's prompt, and their completion. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { call, expect, say, test, visit } from "./fixtures";

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
  await expect(person.conversation).toContainText("Unknown command /nonsense. Type /help for a list.");
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
  const skills = page.waitForResponse("**/skills");
  const person = await visit(page, server, await server.session());
  await skills; // the page does not know the next one
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

test("what is allowed for the session is listed and revoked", async ({ page, serve }) => {
  const touch = call("bash", { command: "touch made", reason: "Make it." });
  const server = await serve({ script: { "make it": [touch, say("Made.")], again: [touch, say("Again.")] } });
  const person = await visit(page, server, await server.session());
  const dialog = page.getByRole("dialog", { name: "Allowed for this session" });
  await person.says("/permissions");
  await expect(dialog).toContainText("Nothing is allowed for this session beyond the approval mode");
  await page.keyboard.press("Escape");
  await expect(person.prompt).toBeFocused();
  await person.says("make it");
  await person.button("Allow for session").click();
  await expect(person.conversation).toContainText("Made.");
  await page.keyboard.press("F1");
  const palette = page.getByRole("dialog", { name: "Command palette" });
  await expect(palette.getByRole("combobox")).toBeFocused();
  await page.keyboard.type("allowed for this");
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("listitem")).toContainText(["touch"]);
  await dialog.getByRole("button", { name: /^Revoke / }).click();
  await expect(dialog.getByRole("listitem")).toHaveCount(0);
  await page.keyboard.press("Escape");
  await person.says("again");
  await expect(person.review).toContainText("touch made");
});

test("commands of the other front ends open what the page has for them", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.says("/new");
  await expect(page.getByRole("dialog", { name: "New session" })).toBeVisible();
  await page.keyboard.press("Escape");
  await person.says("/mode chat");
  await expect(person.conversation).toContainText("chat mode: the next turn has no tools");
  await person.says("/undo");
  await expect(person.conversation).toContainText("nothing to undo in this session");
  await person.says("/sessions");
  await expect(page.getByRole("searchbox", { name: "Search sessions" })).toBeFocused();
});
