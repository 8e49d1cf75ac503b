/** Tests of where the page leads its user after an action: the focus, the scrolled place, and the terminal's keys. */
import { call, expect, say, test, visit } from "./fixtures";

test("a new session takes what is typed, and a session from the list too", async ({ page, serve }) => {
  const server = await serve({
    script: {
      first: [say("One.")],
      "change it": [call("bash", { command: "touch made" }), say("It is changed.")],
    },
  });
  const person = await visit(page, server);
  await person.button("New session").first().click();
  await page.getByRole("button", { name: "Start session" }).click();
  await expect(person.prompt).toBeFocused();
  await page.keyboard.type("first");
  await page.keyboard.press("Enter");
  await expect(person.conversation).toContainText("One.");

  await page.keyboard.press("Alt+n");
  await expect(page.getByRole("dialog")).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(person.tabs).toHaveCount(2);
  await expect(person.prompt).toBeFocused();
  await person.says("change it");
  await expect(person.review).toBeFocused();

  const list = page.getByRole("navigation", { name: "Sessions" });
  await list.getByRole("button", { name: /^first/ }).click();
  await expect(person.prompt).toBeFocused();
  await list.getByRole("button", { name: /^change it/ }).click();
  await expect(person.review).toBeFocused();
});

test("a prompt that is sent while scrolled up is shown", async ({ page, serve }) => {
  const lines = Array.from({ length: 200 }, (_, at) => `- line ${at}`).join("\n");
  const server = await serve({ script: { long: [say(lines)], short: [say("Short.")] } });
  const person = await visit(page, server, await server.session());
  await person.says("long");
  await expect(person.conversation.getByText("line 199", { exact: true })).toBeInViewport();
  await page.getByRole("region", { name: "Messages" }).hover();
  await page.mouse.wheel(0, -2_000);
  await expect(person.button(/Jump to latest/)).toBeVisible();
  await person.says("short");
  await expect(page.getByRole("article", { name: "You" }).last()).toBeInViewport();
  await expect(person.conversation.getByText("Short.", { exact: true })).toBeInViewport();
  await expect(person.button(/Jump to latest/)).toHaveCount(0);
});

test("F1 and Alt+T work in the terminal, and a hidden terminal gives the focus to the prompt", async ({
  page,
  serve,
}) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await person.types("echo kept");
  await page.keyboard.press("F1");
  const palette = page.getByRole("dialog", { name: "Command palette" });
  await expect(palette.getByRole("combobox")).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(palette).toHaveCount(0);
  await page.keyboard.type("-on");
  await person.sees("echo kept-on");
  await page.keyboard.press("Alt+t");
  await expect(person.terminal).toBeHidden();
  await expect(person.prompt).toBeFocused();
  await page.keyboard.press("Alt+t");
  await person.sees(/echo kept-on\s*$/);
  await expect(page.locator(".terminal-slot:not(.away) textarea")).toBeFocused();
  await page.keyboard.type("-and-on");
  await person.sees("echo kept-on-and-on");
});

test("a touch screen is told of no keys, and a long line of code ends in a shadow", async ({
  browser,
  serve,
}) => {
  const server = await serve({
    script: { report: [say(`Run:\n\n\`\`\`sh\n${"echo long ".repeat(40)}\n\`\`\``)] },
  });
  const phone = await browser.newContext({
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    isMobile: true,
  });
  const person = await visit(await phone.newPage(), server);
  await expect(person.page.getByText("Describe a task.")).toBeVisible();
  await expect(person.page.getByText("commands and keys")).toBeHidden();
  await person.button("Settings").click();
  await expect(person.page.getByRole("link", { name: "User guide" })).toBeVisible();
  await expect(person.button(/Keyboard shortcuts/)).toBeHidden();
  await person.page.keyboard.press("Escape");
  await person.button("New session").first().click();
  await person.button("Start session").click();
  await expect(person.page.getByText("Describe a task.")).toBeVisible();
  await expect(person.prompt).not.toBeFocused();
  await person.says("report");
  const code = person.conversation.locator(".code pre");
  await expect(code).toHaveCSS("background-attachment", "local, local, scroll, scroll");
  await phone.close();
});

test("a loaded page, a reload and a stop lead to the prompt, but not on a touch screen", async ({
  page,
  browser,
  serve,
}) => {
  const wait = call("bash", { command: "until [ -e go ]; do sleep 0.05; done" });
  const server = await serve({ args: ["--approve", "auto"], script: { wait: [wait] } });
  const person = await visit(page, server);
  const task = page.getByRole("textbox", { name: "Task for a new session" });
  await expect(task).toBeFocused();
  await page.keyboard.type("wait");
  await page.keyboard.press("Enter");
  await expect(person.conversation).toContainText("running until");
  await page.reload();
  await expect(person.prompt).toBeFocused();
  await person.button(/Stop/).click();
  await expect(person.conversation.locator(".end").last()).toHaveText("stopped");
  await expect(person.prompt).toBeFocused();
  await person.tabs.first().press("Delete");
  await expect(task).toBeFocused();

  const touch = await browser.newContext({ hasTouch: true, isMobile: true });
  await touch.addCookies(await page.context().cookies());
  const phone = await visit(await touch.newPage(), server, await server.session());
  await expect(phone.page.getByText("Describe a task.")).toBeVisible();
  await expect(phone.prompt).not.toBeFocused();
  await touch.close();
});

test("a narrow window with a keyboard names the keys of a proposal", async ({ page, serve }) => {
  const server = await serve({ script: { "make it": [call("bash", { command: "touch made" })] } });
  await page.setViewportSize({ width: 700, height: 450 }); // 1400 by 900 at 200 %
  const person = await visit(page, server, await server.session());
  await person.says("make it");
  await expect(person.button(/^Edit/).locator("kbd")).toBeVisible();
});
