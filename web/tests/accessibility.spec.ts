/** Accessibility: by keyboard, on a phone, with a screen reader. */
import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { call, expect, say, test, visit } from "./fixtures";

const script = {
  "write it": [call("write_file", { path: "made.txt", content: "one\ntwo\n" }), say("Written.")],
  "make room": [
    call(
      "bash",
      { command: "rm -rf build/cache", reason: "It is large." },
      { content: "# I look\n\n`df -h`" },
    ),
    say("| a | b |\n| - | - |\n| 1 | 2 |\n\n```sh\necho done\n```"),
  ],
};

/** Serious accessibility violations that axe finds. */
async function serious(page: Page): Promise<string[]> {
  const found = await new AxeBuilder({ page }).analyze();
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`));
}

for (const scheme of ["dark", "light"] as const) {
  test(`axe finds nothing serious, ${scheme}`, async ({ page, serve }) => {
    const server = await serve({ script });
    await page.emulateMedia({ reducedMotion: "reduce", colorScheme: scheme });
    await page.goto(`${server.url}/`);
    await expect(page.getByLabel("Access token")).toBeVisible();
    expect(await serious(page)).toEqual([]);
    const person = await visit(page, server);
    expect(await serious(page)).toEqual([]);
    await person.button("New session").first().click();
    await expect(page.getByRole("dialog")).toBeVisible();
    expect(await serious(page)).toEqual([]);
    await page.getByRole("dialog").getByRole("button", { name: "Start session" }).click();
    await person.sees("here:");
    expect(await serious(page)).toEqual([]);
    await person.says("make room");
    await expect(person.review).toBeVisible();
    expect(await serious(page)).toEqual([]);
    await person.button(/^(Run|Apply)/).click();
    await expect(page.locator("table")).toBeVisible();
    expect(await serious(page)).toEqual([]);
    await person.says("write it");
    await expect(page.getByRole("region", { name: "Changes to made.txt" })).toBeVisible();
    expect(await serious(page)).toEqual([]);
    await expect(page.locator("html")).toHaveAttribute("data-theme", scheme);
  });

  test(`axe finds nothing serious in what lies over the page, ${scheme}`, async ({ page, serve, sshd }) => {
    const far = await sshd("", "app01 app02");
    const server = await serve({ script, env: { SYSOP_SSH_CONFIG: far.config } });
    await page.emulateMedia({ reducedMotion: "reduce", colorScheme: scheme });
    const person = await visit(page, server, await server.session({ host: "app01,app02", root: far.home }));
    await expect(page.getByRole("region", { name: "Hosts", exact: true })).toBeVisible();
    expect(await serious(page)).toEqual([]);
    await page.keyboard.press("F1");
    await expect(page.getByRole("dialog", { name: "Command palette" })).toBeVisible();
    expect(await serious(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await person.button("Settings").click();
    expect(await serious(page)).toEqual([]);
    await page.getByRole("button", { name: /^Keyboard shortcuts/ }).click();
    await expect(page.getByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
    expect(await serious(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await person.button("Settings").click();
    await person.button("Show code").click();
    await expect(page.getByRole("img", { name: "QR code of the link" })).toBeVisible();
    expect(await serious(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await person.button("Sessions").click();
    await page.getByRole("button", { name: /^Actions for/ }).click();
    expect(await serious(page)).toEqual([]);
  });
}

test("a phone shows one half of the page at a time, and nothing overflows", async ({ page, serve }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  const server = await serve({ script });
  const person = await visit(page, server, await server.session());
  const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth);
  await expect(person.prompt).toBeVisible();
  expect(await fits()).toBe(true);
  await person.says("make room");
  await expect(person.button(/^Run/)).toBeVisible();
  expect(await fits()).toBe(true);
  expect(await serious(page)).toEqual([]);
  await person.button(/^Run/).click();
  await page.getByRole("button", { name: "Terminal", exact: true }).click();
  await expect(person.prompt).not.toBeInViewport();
  await person.sees("here:");
  await person.types("echo from-a-$((1))phone\r");
  await person.sees("from-a-1phone");
  expect(await fits()).toBe(true);
  await person.button("Conversation").click();
  await expect(person.prompt).toBeInViewport();
});

test("a task is given, reviewed and finished with keys only", async ({ page, serve }) => {
  const server = await serve({ script });
  const person = await visit(page, server, await server.session());
  await expect(person.prompt).toBeFocused();
  const skip = page.getByRole("link", { name: "Skip to conversation" });
  await skip.focus();
  await expect(skip).toBeInViewport({ ratio: 1 });
  await person.prompt.focus();
  await page.keyboard.type("make room");
  await page.keyboard.press("Enter");
  await expect(person.review).toBeFocused();
  await expect(person.button(/^Run/)).toBeEnabled(); // keys count by then
  await page.keyboard.press("Y"); // the command deletes
  await page.keyboard.press("Enter");
  await expect(person.review).toHaveCount(0);
  await expect(page.locator("table")).toBeVisible();
  await expect(
    page
      .getByRole("status")
      .filter({ hasText: /The turn ended|1/ })
      .first(),
  ).toBeAttached();
});
