/** Seed 004's whole flow: a task on a remote machine, from its first step to a new chat. */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { call, expect, Person, say, test, visit } from "./fixtures";

test("a task on a remote machine is paused, goes on, ends, is tried again and stopped", async ({
  page,
  serve,
  sshd,
}) => {
  const far = await sshd();
  const [one, go] = [join(far.home, "one"), join(far.home, "go")];
  const server = await serve({
    args: ["--approve", "auto"],
    env: { SYSOP_SSH_CONFIG: far.config },
    script: {
      "tidy up": [
        call("run_command", { command: "echo step-one >> one; cat one", reasoning: "I look first." }),
        call("run_command", {
          command: "until [ -e go ]; do sleep 0.05; done; echo step-two",
          reasoning: "It takes a while.",
        }),
        call("send_keys", { keys: "echo Space step-three Enter", reasoning: "By hand." }),
        call("task_complete", { summary: "All is **tidy**." }),
      ],
    },
  });
  const person = await visit(page, server);
  await person.button("New session").first().click();
  const dialog = page.getByRole("dialog", { name: "New session" });
  await dialog.getByRole("button", { name: /^far/ }).click();
  await dialog.getByLabel("Root directory").fill(far.home);
  await dialog.getByRole("button", { name: "Start session" }).click();
  await expect(person.tabs).toHaveText([/far$/]);
  await expect(person.button("Agent mode")).toBeVisible();
  await expect(page.locator(".ps")).toHaveText("agent:/>");

  await person.says("tidy up this machine");
  await expect(person.steps.first()).toContainText("I look first.");
  await expect(person.steps.first()).toContainText("step-one");
  await person.sees("step-one");
  await expect(person.steps).toHaveCount(2);
  await person.button(/Pause/).click();
  writeFileSync(go, "");
  await expect(person.conversation).toContainText("Agent paused. Click Resume to continue.");
  await expect(person.steps.nth(1)).toContainText("step-two");
  await expect(person.steps).toHaveCount(2);
  await person.button(/Resume/).click();
  await expect(person.steps).toHaveCount(3);
  await expect(person.steps.nth(2)).toHaveClass(/send_keys/);
  await person.sees("step-three");
  const complete = page.getByRole("article", { name: "Task complete" });
  await expect(complete.locator("strong")).toHaveText("tidy");
  expect(readFileSync(one, "utf8")).toBe("step-one\n");

  rmSync(go);
  await person.button(/Retry/).click();
  await expect.poll(() => readFileSync(one, "utf8")).toBe("step-one\nstep-one\n");
  await expect(person.conversation).toContainText("running until");
  await person.button(/Stop/).click();
  await expect(person.conversation.locator(".end").last()).toHaveText("stopped");
  await expect(person.button(/Stop/)).toHaveCount(0);
  expect(existsSync(go)).toBe(false);

  // A click right after the end of a turn is taken for one on Stop.
  await expect(async () => {
    await person.button(/New chat/).click();
    await expect(person.steps).toHaveCount(0, { timeout: 500 });
  }).toPass();
  await expect(person.conversation).toContainText(/Show earlier messages|Describe a task/);
});

test("a chat without tools offers commands, and sends the selected terminal text to the model", async ({
  page,
  serve,
}) => {
  const server = await serve({
    script: { "disk usage": [{ content: "Use <cmd>echo from-a-chip</cmd> to see it." }] },
  });
  const person = await visit(page, server, await server.session());
  await person.button(/^(Agent|Chat) mode$/).click();
  await expect(page.locator(".ps")).toHaveText("gemini:/>");
  await person.says("how do I check disk usage?");
  const chip = person.conversation.getByText("echo from-a-chip", { exact: true }).first();
  await expect(chip).toBeVisible();
  await person.sees("here:");
  await person
    .button(/Run in terminal/)
    .first()
    .click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Run" }).click();
  await person.sees("from-a-chip");

  const printed = person.terminal.locator("> div").filter({ hasText: /^from-a-chip/ });
  const box = await printed.boundingBox();
  await page.mouse.dblclick((box?.x ?? 0) + 20, (box?.y ?? 0) + 5);
  await person.button("Add to the prompt").click();
  await expect(person.prompt).toHaveValue("From the terminal:\n```\nfrom-a-chip\n```\n");
});

test("the chat of seed 002 streams, and is cleared on request", async ({ page, serve }) => {
  const server = await serve({
    args: ["--approve", "auto"],
    script: {
      "write a file": [
        call("write_file", { path: "made.txt", content: "made" }, { content: "I write it." }),
        { content: "It is written." },
      ],
    },
  });
  await visit(page, server);
  // Requested from the page itself, as its script would.
  const said = await page.evaluate(async () => {
    const headers = { "content-type": "application/json" };
    const chat = await fetch("/chat", {
      method: "POST",
      headers,
      body: JSON.stringify({ message: "write a file" }),
    });
    const stream = await chat.text();
    const cleared = await fetch("/clear", { method: "POST", headers, body: "{}" });
    return { stream, cleared: await cleared.json() };
  });
  const events = [...said.stream.matchAll(/^event: (\w+)\ndata: (.*)$/gm)].map(([, event, data]) => {
    return { event, data: JSON.parse(data ?? "") };
  });
  expect(events.at(-1)).toEqual({ event: "done", data: {} });
  expect(events.find(({ event }) => event === "tool")?.data.name).toBe("write_file");
  const text = events.filter(({ event }) => event === "text").map(({ data }) => data.content);
  expect(text.join("")).toContain("It is written.");
  expect(readFileSync(join(server.work, "made.txt"), "utf8")).toBe("made");
  expect(said.cleared).toEqual({ status: "ok" });
});

test("a person has to sign in once", async ({ page, serve }) => {
  const server = await serve({});
  const turned = await page.goto(`${server.url}/`);
  expect(turned?.status()).toBe(401);
  await page.getByLabel("Access token").fill(server.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "sysop" })).toBeVisible();
  expect(page.url()).toBe(`${server.url}/`);
  await expect(new Person(page).button("New session").first()).toBeVisible();
});

test("a command goes to the background, and its job is stopped by a click", async ({ page, serve }) => {
  const server = await serve({
    args: ["--approve", "auto"],
    script: {
      "serve it": [call("bash", { command: "echo up; sleep 1000", timeout_s: 600 }), say("It is up.")],
    },
  });
  const person = await visit(page, server, await server.session());
  await person.says("serve it");
  await person.button("Run in background").click();
  await expect(person.conversation).toContainText("It is up.");
  const jobs = page.getByRole("list", { name: "Background jobs" });
  await expect(jobs).toContainText("echo up; sleep 1000");
  await page.reload();
  await expect(jobs).toContainText("job 1");
  await expect(person.steps.first()).toContainText("running as job 1");
  await person.button("Stop job 1").click();
  await expect(jobs).toBeHidden();
  await expect(person.conversation).toContainText("job 1 ended: canceled");
  await expect(person.steps.first()).toContainText("job 1: canceled");
});

test("the output so far of a background job is read by a click, on the card of its command", async ({
  page,
  serve,
}) => {
  const waits = "echo first; until [ -e go ]; do sleep 0.05; done; echo second; sleep 1000";
  const server = await serve({
    args: ["--approve", "auto"],
    script: { "serve it": [call("bash", { command: waits, background: true }), say("It is up.")] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("serve it");
  await expect(person.conversation).toContainText("It is up.");
  const job = person.button(/^job 1 on /);
  const card = person.steps.first();
  await job.click();
  await expect(card.locator(".output")).toHaveText("first");
  await expect(card).toContainText("output as of ");
  writeFileSync(join(server.work, "go"), "");
  await expect(async () => {
    await job.click();
    await expect(card.locator(".output")).toHaveText("first\nsecond", { timeout: 500 });
  }).toPass();
  await expect(person.steps).toHaveCount(1);
  await page.reload();
  await expect(card).toContainText("output when it was last read");
});
