/** Review: edited, answered in another tab, refused; by keys. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { call, expect, say, test, visit } from "./fixtures";

const script = {
  "make it": [
    call("bash", { command: "echo proposed > made", reason: "As you wished." }),
    say("It is made."),
  ],
};

test("a proposal is edited, and the edited command runs", async ({ page, serve }) => {
  const server = await serve({ script });
  const person = await visit(page, server, await server.session());
  await person.says("make it");
  await expect(person.review).toContainText("echo proposed > made");
  await expect(person.review).toContainText(`on ${hostname()}`);
  await expect(person.button(/^Allow for session/)).toContainText("echo proposed > made");
  expect(existsSync(join(server.work, "made"))).toBe(false);
  await person.button(/^Edit/).click();
  const field = page.getByRole("textbox", { name: "Edited command" });
  await field.fill("echo edited > made");
  // It does not run before it has been assessed.
  await expect(person.button(/^Run edited/)).toBeDisabled();
  await field.press("Enter");
  await expect(person.button(/^Run edited/)).toBeEnabled();
  expect(existsSync(join(server.work, "made"))).toBe(false);
  await field.press("Enter");
  await expect(person.conversation).toContainText("It is made.");
  await expect(person.steps.first()).toContainText("edited; proposed was");
  expect(readFileSync(join(server.work, "made"), "utf8")).toBe("edited\n");
});

test("a long command is read to its end in its field, too, before it runs", async ({ page, serve }) => {
  const lines = Array.from({ length: 120 }, (_, at) => `echo line-${at} >> made`);
  const command = [...lines, "touch at-the-end"].join("\n");
  const server = await serve({ script: { "make it": [call("bash", { command }), say("It is made.")] } });
  const person = await visit(page, server, await server.session());
  await person.says("make it");
  await expect(person.button(/^Keep reading/)).toBeEnabled();
  await person.button(/^Edit/).click();
  const field = page.getByRole("textbox", { name: "Edited command" });
  await expect(field).toBeFocused();
  const { start, hidden, top } = await field.evaluate((field: HTMLTextAreaElement) => ({
    start: field.selectionStart,
    hidden: field.scrollHeight - field.clientHeight,
    top: field.getBoundingClientRect().top - (field.closest(".card-body")?.getBoundingClientRect().top ?? 0),
  }));
  expect([start, hidden]).toEqual([0, 0]);
  expect(top).toBeGreaterThan(0);
  const run = person.button(/^Run/);
  await expect(person.button(/^Keep reading \(\d+ pages\) Ctrl\+Enter$/)).toBeVisible();
  await page.keyboard.type("# ");
  await person.button(/^Keep reading/).click();
  await expect(field).toBeFocused();
  await expect(run).toHaveCount(0);
  await expect(async () => {
    if (await person.button(/^Keep reading/).isVisible()) await field.press("Control+Enter");
    await expect(person.button(/^Run edited/)).toBeEnabled({ timeout: 500 });
  }).toPass();
  expect(existsSync(join(server.work, "at-the-end"))).toBe(false);
  await expect(field).toHaveValue(`# ${command}`);
  await field.press("Control+Enter");
  await expect(person.conversation).toContainText("It is made.");
  expect(readFileSync(join(server.work, "made"), "utf8")).toMatch(/^line-1\n/);
  expect(existsSync(join(server.work, "at-the-end"))).toBe(true);
});

test("after Read on, the keys of the proposal work", async ({ page, serve }) => {
  const command = [...Array.from({ length: 60 }, (_, at) => `echo ${at}`), "touch made"].join("\n");
  const server = await serve({ script: { "make it": [call("bash", { command }), say("It is made.")] } });
  const person = await visit(page, server, await server.session());
  await person.says("make it");
  const more = person.button(/^Keep reading/);
  await expect(async () => {
    if (await more.isVisible()) await more.click({ timeout: 500 });
    await expect(person.button(/^Run/)).toBeEnabled({ timeout: 500 });
  }).toPass();
  await expect(person.review).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(person.conversation).toContainText("It is made.");
  expect(existsSync(join(server.work, "made"))).toBe(true);
});

test("the effect of a command is shown, and follows an edit", async ({ page, serve }) => {
  const server = await serve({
    script: { "tidy up": [call("bash", { command: "rm -r old", reason: "It is old." }), say("Tidy.")] },
  });
  for (const [folder, count] of [
    ["old", 3],
    ["older", 2],
  ] as const) {
    mkdirSync(join(server.work, folder));
    for (let file = 0; file < count; file += 1)
      writeFileSync(join(server.work, folder, `${file}.log`), "0123");
  }
  const person = await visit(page, server, await server.session());
  await person.says("tidy up");
  const effect = person.review.getByRole("status", { name: "Effect preview" });
  await expect(effect).toContainText(/3 files, 1 directory, 12 bytes/);
  await person.button(/^Edit/).click();
  await page.getByRole("textbox", { name: "Edited command" }).fill("rm -r older");
  await expect(effect).toContainText(/2 files, 1 directory, 8 bytes/);
  expect(existsSync(join(server.work, "old/0.log"))).toBe(true);
  await person.button("Run edited").click();
  await expect(person.conversation).toContainText("Tidy.");
  expect(existsSync(join(server.work, "older"))).toBe(false);
  expect(existsSync(join(server.work, "old"))).toBe(true);
});

test("the risk and the findings follow an edit", async ({ page, serve }) => {
  const server = await serve({
    script: { "list it": [call("bash", { command: "touch made", reason: "To see." }), say("Listed.")] },
  });
  mkdirSync(join(server.work, "gone"));
  const person = await visit(page, server, await server.session());
  await person.says("list it");
  await expect(person.review).toContainText("makes changes");
  await person.button(/^Edit/).click();
  const field = page.getByRole("textbox", { name: "Edited command" });
  await field.fill("rm -rf gone");
  await expect(person.review).toContainText("dangerous");
  const finding = person.review.getByRole("listitem").filter({ hasText: "rm -rf gone" });
  await expect(finding).toContainText("recursive delete");
  await expect(person.review).toHaveClass(/dangerous/);
  // Enter alone is pressed too easily.
  await field.press("Enter");
  await expect(person.review).toContainText("Press Tab, then Enter, to run a dangerous command.");
  await expect(person.button("Run edited Tab, Enter")).toBeEnabled();
  expect(existsSync(join(server.work, "gone"))).toBe(true);
  await field.fill("touch made");
  await expect(person.review).toContainText("makes changes");
  await expect(finding).toHaveCount(0);
  await field.fill("rm -rf gone");
  await expect(person.review).toContainText("dangerous");
  await expect(person.button(/^Run edited/)).toBeEnabled();
  await field.press("Tab");
  await expect(person.button(/^Run edited/)).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(person.conversation).toContainText("Listed.");
  expect(existsSync(join(server.work, "gone"))).toBe(false);
});

test("a lost request for an assessment is repeated", async ({ page, serve }) => {
  const server = await serve({
    script: { "make it": [call("bash", { command: "touch made" }), say("Made.")] },
  });
  let lost = 0;
  await page.routeWebSocket(/\/stream/, (socket) => {
    const there = socket.connectToServer();
    socket.onMessage((message) => {
      if (lost === 0 && message.toString().includes("touch other")) lost += 1;
      else there.send(message);
    });
  });
  const person = await visit(page, server, await server.session());
  await person.says("make it");
  await person.button(/^Edit/).click();
  await page.getByRole("textbox", { name: "Edited command" }).fill("touch other");
  await person.button(/^Run edited/).click();
  await expect(person.conversation).toContainText("Made.");
  expect([lost, existsSync(join(server.work, "other"))]).toEqual([1, true]);
});

test("a proposal is refused by keys, with a message to the model", async ({ page, serve }) => {
  const server = await serve({ script });
  const person = await visit(page, server, await server.session());
  await person.says("make it");
  await expect(person.review).toBeFocused();
  await expect(person.button(/^Run/)).toBeEnabled(); // nothing counts that was typed before one could read it
  await page.keyboard.press("r");
  await expect(page.getByRole("textbox", { name: /Reason for the model/ })).toBeFocused();
  await page.keyboard.type("not here");
  await page.keyboard.press("Enter");
  await expect(person.steps.first()).toContainText("not here");
  await expect(person.conversation).toContainText("It is made.");
  expect(existsSync(join(server.work, "made"))).toBe(false);
});

test("a dangerous command requires a capital Y, and then Enter", async ({ page, serve }) => {
  const server = await serve({
    script: { "wipe it": [call("bash", { command: "rm -rf gone" }), say("It is gone.")] },
  });
  const person = await visit(page, server, await server.session());
  mkdirSync(join(server.work, "gone"));
  await person.says("wipe it");
  await expect(person.review).toBeFocused();
  await expect(person.button(/^Run/)).toBeEnabled();
  for (const key of ["Enter", "Space", "Y", "Escape", "Enter"]) await page.keyboard.press(key);
  await page.keyboard.press("Y");
  await expect(person.button("Run Enter")).toBeEnabled();
  expect(existsSync(join(server.work, "gone"))).toBe(true);
  await page.keyboard.press("Enter");
  await expect(person.conversation).toContainText("It is gone.");
  expect(existsSync(join(server.work, "gone"))).toBe(false);
});

test("on a touch screen, a dangerous command runs on the second tap", async ({ browser, serve }) => {
  const context = await browser.newContext({
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    isMobile: true,
  });
  const page = await context.newPage();
  const server = await serve({
    script: { "wipe it": [call("bash", { command: "rm -rf gone" }), say("It is gone.")], ...script },
  });
  const person = await visit(page, server, await server.session());
  mkdirSync(join(server.work, "gone"));
  await person.says("wipe it");
  const run = person.review.getByRole("button", { name: /^Run/ });
  await run.tap();
  await expect(run).toHaveText("Run: tap again");
  expect(existsSync(join(server.work, "gone"))).toBe(true);
  // A second tap that comes too late is a first one again.
  await expect(async () => {
    if ((await run.count()) > 0) await run.tap({ timeout: 1_000 });
    await expect(person.review).toHaveCount(0, { timeout: 1_000 });
  }).toPass();
  await expect(person.conversation).toContainText("It is gone.");
  expect(existsSync(join(server.work, "gone"))).toBe(false);
  await person.says("make it");
  await person.review.getByRole("button", { name: /^Run/ }).tap();
  await expect(person.conversation).toContainText("It is made.");
  await context.close();
});

test("a message that is typed while the proposal has the focus rejects it, with each of its letters", async ({
  page,
  serve,
}) => {
  const server = await serve({
    script: { "wipe it": [call("bash", { command: "rm -rf gone" }), say("As you like.")], ...script },
  });
  const person = await visit(page, server, await server.session());
  mkdirSync(join(server.work, "gone"));
  const messages = [
    ["wipe it", "Yes, but list them first"],
    ["make it", "restart the app first"],
    ["make it", "check nginx as well"],
  ] as const;
  for (const [at, [task, message]] of messages.entries()) {
    await person.says(task);
    await expect(person.review).toBeFocused();
    await expect(person.button(/^Run/)).toBeEnabled();
    await page.keyboard.type(message, { delay: 60 });
    await expect(person.prompt).toHaveValue(message);
    await expect(person.review).toBeVisible();
    await page.keyboard.press("Enter");
    await expect(person.review).toHaveCount(0);
    await expect(person.steps.nth(at)).toContainText(message);
    await expect(page.locator(".end")).toHaveCount(at + 1);
  }
  expect([existsSync(join(server.work, "gone")), existsSync(join(server.work, "made"))]).toEqual([
    true,
    false,
  ]);
});

test("a decision in one tab closes the card in the other", async ({ page, context, serve }) => {
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

test("always shows the rule, and writes it on a click", async ({ page, serve }) => {
  const server = await serve({
    script: { "touch it": [call("bash", { command: "touch made" }), say("Done.")] },
  });
  const rules = join(server.home, ".config/sysop/rules.toml");
  const person = await visit(page, server, await server.session());
  await person.says("touch it");
  await person.button("Always…").click();
  const rule = page.getByRole("region", { name: "Rule to save" });
  await expect(rule).toContainText('program = "touch"');
  await expect(rule).toContainText("rules.toml");
  // No key runs anything here.
  for (const key of ["Enter", "a", "A", "y"]) await page.keyboard.press(key);
  await expect(rule).toBeVisible();
  expect(existsSync(rules)).toBe(false);
  await person.button("Back").click();
  await expect(rule).toHaveCount(0);
  await person.button("Always…").click();
  await person.button("Run and save rule").click();
  await expect(person.conversation).toContainText("Done.");
  expect(readFileSync(rules, "utf8")).toContain('operands = ["made"]');
  // Nobody is asked about it any more.
  await person.says("touch it");
  const answers = page.getByRole("article", { name: "The model" }).filter({ hasText: "Done." });
  await expect(answers).toHaveCount(2);
  await expect(person.review).toHaveCount(0);
});

test("always is not offered for a command that always asks", async ({ page, serve }) => {
  const server = await serve({
    script: { "wipe it": [call("bash", { command: "rm -rf /etc" }), say("Done.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("wipe it");
  await expect(person.button(/^Run/)).toBeVisible();
  await expect(person.button("Always…")).toHaveCount(0);
});

test("the plan of a read-only session is run step by step", async ({ page, serve }) => {
  const plan = [
    call("bash", { command: "touch one" }),
    call("bash", { command: "touch two" }),
    say("That is the plan."),
  ];
  const server = await serve({ script: { "plan it": plan } });
  const person = await visit(page, server, await server.session());
  const mode = page.getByRole("combobox", { name: "Approval mode" });
  await mode.selectOption("never");
  await person.says("plan it");
  await expect(person.conversation).toContainText("That is the plan.");
  const card = page.getByRole("region", { name: "Proposed steps" });
  await expect(card).toHaveCount(0);
  await mode.selectOption("ask");
  await expect(card.getByRole("listitem")).toHaveText([/touch one/, /touch two/]);
  await expect(card.getByRole("button", { name: "Run" }).last()).toBeDisabled();
  // The current mode decides, and it asks.
  await card.getByRole("button", { name: "Run" }).first().click();
  await expect(person.review).toContainText("touch one");
  await person.review.getByRole("button", { name: /^Run/ }).click();
  await expect(card.getByRole("listitem")).toHaveText([/touch two/]);
  await expect(person.conversation).toContainText("from the plan, started by you");
  await expect(person.conversation).not.toContainText("routine");
  expect([existsSync(join(server.work, "one")), existsSync(join(server.work, "two"))]).toEqual([true, false]);
  await mode.selectOption("auto");
  await card.getByRole("button", { name: "Run" }).click();
  await expect(card).toHaveCount(0);
  await expect.poll(() => existsSync(join(server.work, "two"))).toBe(true);
});
