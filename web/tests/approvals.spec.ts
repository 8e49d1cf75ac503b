/** Conditions of approvals, several people, bounds of the mode `auto`, and the undo of a step. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { call, expect, say, test, visit } from "./fixtures";

test("a change that two people must allow says who has, and when it expires, in late tabs too", async ({
  page,
  context,
  serve,
  sshd,
}) => {
  const far = await sshd();
  const server = await serve({
    config: "approval_expires_s = 600\n[hosts.far]\napprovals = 2\n",
    env: { SYSOP_SSH_CONFIG: far.config },
    script: { "change it": [call("bash", { command: "touch made" }), say("It is changed.")] },
  });
  const id = await server.session({ host: "far", root: far.home });
  const person = await visit(page, server, id);
  await person.says("change it");
  await expect(person.review).toContainText("0 of 2 people have allowed this");
  await expect(person.review).toContainText(/Expires in (10|9) min/);
  await person.button(/^Run/).click();
  await expect(person.review).toContainText("1 of 2 people have allowed this");
  const late = await visit(await context.newPage(), server, id);
  await expect(late.review).toContainText("1 of 2 people have allowed this");
  await expect(late.review).toContainText(/Expires in (10|9) min/);
  expect(existsSync(join(far.home, "made"))).toBe(false);
});

test("every prompt names its sender once a second person has sent one", async ({ page, serve }) => {
  const server = await serve({ script: { first: [say("One.")], second: [say("Two.")] } });
  const id = await server.session();
  const person = await visit(page, server, id);
  await person.says("first");
  await expect(person.conversation).toContainText("One.");
  const senders = person.conversation.locator(".prompt .sender");
  await expect(senders).toHaveCount(0);
  const sent = await fetch(`${server.url}/api/agent/sessions/${id}/messages`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.createToken("bob")}`, "content-type": "application/json" },
    body: JSON.stringify({ content: "second", by: "root" }),
  });
  expect(sent.status).toBe(202);
  await expect(person.conversation).toContainText("Two.");
  await expect(senders).toHaveText(["you", "bob"]);
});

test("an approval counts down and is rejected when its time runs out", async ({ page, serve }) => {
  const server = await serve({
    config: "approval_expires_s = 4\n",
    script: { "change it": [call("bash", { command: "touch made" }), say("Never mind.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("change it");
  await expect(person.review).toContainText(/Expires in [2-4] s/);
  await expect(person.review).toContainText(/Expires in 1 s/);
  await expect(person.conversation).toContainText("Never mind.");
  await expect(person.steps.first()).toContainText("nobody allowed it within 4s");
  expect(existsSync(join(server.work, "made"))).toBe(false);
});

test("the mode auto counts down its bounds and ends by itself, in a late tab too", async ({
  page,
  context,
  serve,
}) => {
  const step = (name: string) => call("bash", { command: `touch ${name}` });
  const server = await serve({
    script: { "make three": [step("one"), step("two"), step("three"), say("All made.")] },
  });
  const id = await server.session();
  const person = await visit(page, server, id);
  await person.says("/auto 2 commands, 30m");
  await expect(page.getByRole("timer")).toHaveText(/^2 commands, (30|29)m left$/);
  const late = await visit(await context.newPage(), server, id);
  await expect(late.page.getByRole("timer")).toHaveText(/^2 commands, (30|29)m left$/);
  await person.says("make three");
  await expect(person.review).toContainText("touch three");
  await expect(page.getByRole("timer")).toHaveCount(0);
  await expect(page.getByRole("combobox", { name: "Approval mode" })).toHaveValue("ask");
  expect(existsSync(join(server.work, "two"))).toBe(true);
  expect(existsSync(join(server.work, "three"))).toBe(false);
  await person.says("/auto a while");
  await expect(page.getByRole("alert")).toContainText("bounds");
});

test("the undo of a step shows its plan and restores the earlier state", async ({ page, serve }) => {
  const server = await serve({
    args: ["--approve", "auto"],
    script: { "change it": [call("bash", { command: "echo new > a; touch b" }), say("It is changed.")] },
  });
  const file = join(server.work, "a");
  writeFileSync(file, "old\n");
  const person = await visit(page, server, await server.session());
  await person.says("change it");
  const step = person.steps.first();
  await expect(step).toContainText("undo: exact");
  await person.says("/undo 2");
  await expect(person.conversation).toContainText("there is no call 2");
  await person.says("/undo");
  await expect(person.review.locator("header")).toContainText("Undo echo new > a; touch b?");
  await expect(person.review).toContainText(`restore ${file}`);
  // The arguments of the call are for machines.
  await expect(person.review.getByText("records")).toBeHidden();
  expect(readFileSync(file, "utf8")).toBe("new\n");
  await person.review.getByRole("button", { name: /^Undo/ }).click();
  await expect(person.conversation).toContainText("You undid call 1");
  await expect(step).toContainText("undone");
  await expect(step.getByRole("button", { name: "Undo" })).toHaveCount(0);
  await expect(person.prompt).toBeFocused();
  expect(readFileSync(file, "utf8")).toBe("old\n");
  expect(existsSync(join(server.work, "b"))).toBe(false);
});

test("an edit of a file is applied, and undone by its button", async ({ page, serve }) => {
  const edit = { path: "a", old_string: "old", new_string: "new" };
  const server = await serve({ script: { "change it": [call("edit_file", edit), say("It is changed.")] } });
  const file = join(server.work, "a");
  writeFileSync(file, "old\n");
  const person = await visit(page, server, await server.session());
  await person.says("change it");
  await expect(person.review).toContainText("Apply this change?");
  await person.button(/^Apply/).click();
  await expect(person.conversation).toContainText("It is changed.");
  expect(readFileSync(file, "utf8")).toBe("new\n");
  const step = person.steps.first();
  await expect(step).toContainText("changed: a edited; undo: exact");
  await step.getByRole("button", { name: "Undo" }).click();
  await expect(person.prompt).toBeFocused();
  await expect(person.steps.nth(1)).toContainText("undo call 1: a");
  await expect(step).toContainText("undone");
  await expect.poll(() => readFileSync(file, "utf8")).toBe("old\n");
});

test("an undo without a number marks the edit of a file that it undid", async ({ page, serve }) => {
  const edit = { path: "a", old_string: "old", new_string: "new" };
  const server = await serve({
    args: ["--approve", "auto"],
    script: { "change it": [call("edit_file", edit), say("It is changed.")] },
  });
  const file = join(server.work, "a");
  writeFileSync(file, "old\n");
  const person = await visit(page, server, await server.session());
  await person.says("change it");
  const step = person.steps.first();
  await expect(step).toContainText("undo: exact");
  await person.says("/undo");
  await expect(step).toContainText("undone");
  expect(readFileSync(file, "utf8")).toBe("old\n");
});

test("an edited command survives a reload of the page", async ({ page, serve }) => {
  const server = await serve({
    script: { "change it": [call("bash", { command: "touch made" }), say("It is changed.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("change it");
  await person.button(/^Edit/).click();
  const field = page.getByRole("textbox", { name: "Edited command" });
  await field.fill("touch other");
  await page.reload();
  await expect(field).toHaveValue("touch other");
  await expect(field).toBeFocused();
  await person.button(/^Run edited/).click();
  await expect(person.conversation).toContainText("It is changed.");
  expect([existsSync(join(server.work, "made")), existsSync(join(server.work, "other"))]).toEqual([
    false,
    true,
  ]);
});

test("the scope of an answer for the session is shown in full, on a phone too", async ({ page, serve }) => {
  const command = `echo ${"many words ".repeat(5).trim()} > a-file`;
  const server = await serve({ script: { "change it": [call("bash", { command }), say("It is changed.")] } });
  const person = await visit(page, server, await server.session());
  await person.says("change it");
  const scope = person.button(/Allow for session/).locator("small");
  await expect(scope).toHaveText(`exactly ${command} in this directory`);
  for (const width of [1400, 390]) {
    await page.setViewportSize({ width, height: 900 });
    const hidden = () =>
      scope.evaluate((text) => text.scrollWidth - text.clientWidth + text.scrollHeight - text.clientHeight);
    await expect.poll(hidden).toBeLessThanOrEqual(0);
    const [card, line] = [await person.review.boundingBox(), await scope.boundingBox()];
    if (!card || !line) throw new Error("neither is shown");
    expect(line.x + line.width).toBeLessThanOrEqual(card.x + card.width);
  }
});
