/** Tests of the search in a conversation, of which only the rows in view are elements of the page. */
import type { Page } from "@playwright/test";
import { call, expect, type Person, say, test, visit } from "./fixtures";

/** Text of the current hit, as the browser highlights it. */
const current = (page: Page) =>
  page.evaluate(() => [...(CSS.highlights.get("find-current") ?? [])].map(String).join("|"));

/** True if the current hit is within the visible part of the messages. */
const isInView = (page: Page) =>
  page.evaluate(() => {
    const [range] = CSS.highlights.get("find-current") ?? [];
    const list = document.querySelector(".scroller")?.getBoundingClientRect();
    const place = range instanceof Range ? range.getBoundingClientRect() : undefined;
    return Boolean(place && list && place.height > 0 && place.top >= list.top && place.bottom <= list.bottom);
  });

const filler = (what: string) => Array.from({ length: 30 }, (_, at) => `Line ${at} of ${what}.`).join("\n\n");

const script = {
  "look first": [
    call("bash", { command: "seq 400 | sed 's/^\\(57\\)$/needle in \\1/'", reason: "Count." }),
    say("Counted; one **bold** needle here."),
  ],
  "say much": [say(filler("much"))],
  "say more": [say(filler("more"))],
  "at last": [say("The last needle.")],
};

const field = (page: Page) => page.getByRole("textbox", { name: "Find in this conversation" });
const palette = (page: Page) => page.getByRole("dialog", { name: "Command palette" }).getByRole("combobox");
const status = (page: Page) => page.locator(".find [role=status]");

async function talk(person: Person): Promise<void> {
  for (const prompt of ["look first", "say much", "say more", "at last"]) {
    await person.says(prompt);
    await expect(person.conversation.locator(".prompt", { hasText: prompt })).toBeVisible();
    await expect(person.page.getByRole("button", { name: "Stop" })).toHaveCount(0);
  }
  await expect(person.conversation).toContainText("The last needle.");
}

test("Ctrl+F finds text in rows that are not drawn, opens folded output, and Esc returns the focus", async ({
  page,
  serve,
}) => {
  const server = await serve({ script, args: ["--approve", "auto"] });
  const person = await visit(page, server, await server.session());
  await talk(person);
  await person.prompt.focus();
  await page.keyboard.press("Control+f");
  await expect(field(page)).toBeFocused();
  await page.keyboard.type("NEEDLE");
  await expect(status(page)).toHaveText("4 of 4");
  await page.keyboard.press("Shift+Enter");
  await expect(status(page)).toHaveText("3 of 4");
  await expect.poll(() => current(page)).toBe("needle");
  await expect.poll(() => isInView(page)).toBe(true);
  await page.keyboard.press("Shift+Enter");
  await expect(status(page)).toHaveText("2 of 4");
  await expect(person.conversation.locator(".output.whole")).toBeVisible();
  await expect.poll(() => isInView(page)).toBe(true);
  await person.prompt.focus();
  await page.keyboard.press("F3");
  await expect(status(page)).toHaveText("3 of 4");
  await page.keyboard.press("Control+f");
  await expect(field(page)).toBeFocused();
  await field(page).fill("bold needle");
  await expect(status(page)).toHaveText("1 of 1");
  await expect.poll(() => current(page)).toBe("bold needle");
  await field(page).fill("nowhere");
  await expect(status(page)).toHaveText("No matches");
  await page.keyboard.press("Escape");
  await expect(field(page)).toHaveCount(0);
  await expect(person.prompt).toBeFocused();
  expect(await current(page)).toBe("");
});

test("the palette and /find search a conversation, also in hidden messages", async ({ page, serve }) => {
  const server = await serve({ script, args: ["--approve", "auto"] });
  const person = await visit(page, server, await server.session());
  await talk(person);
  await person.says("/find last needle");
  await expect(field(page)).toHaveValue("last needle");
  await expect(status(page)).toHaveText("1 of 1");
  await page.keyboard.press("Escape");
  await page.keyboard.press("F1");
  await expect(palette(page)).toBeFocused();
  await page.keyboard.type("hide messages");
  await page.keyboard.press("Enter");
  const messages = page.getByRole("region", { name: "Messages" });
  await expect(messages).not.toContainText("The last needle."); // what a screen reader said is no message
  await page.keyboard.press("F1");
  await expect(palette(page)).toBeFocused();
  await page.keyboard.type("find in this");
  await page.keyboard.press("Enter");
  await expect(field(page)).toBeFocused();
  await page.keyboard.type("one bold");
  await expect(status(page)).toHaveText("1 of 1");
  await expect.poll(() => isInView(page)).toBe(true);
});

test("a narrow phone shows in full that there are no matches, and if output was not searched", async ({
  browser,
  serve,
}) => {
  const long = call("bash", { command: "seq 20000", reason: "Count." });
  const server = await serve({
    args: ["--approve", "auto"],
    script: { hello: [say("Hello.")], count: [long, say("Counted.")] },
  });
  const context = await browser.newContext({
    viewport: { width: 320, height: 568 },
    hasTouch: true,
    isMobile: true,
  });
  const page = await context.newPage();
  const person = await visit(page, server, await server.session());
  await person.says("hello");
  await expect(person.conversation).toContainText("Hello.");
  const isWhole = async () => {
    const told = await status(page).boundingBox();
    const box = await field(page).boundingBox();
    const inField =
      (box?.y ?? 0) + (box?.height ?? 0) > (told?.y ?? 0) && told && box && told.x < box.x + box.width;
    const isCut = await status(page).evaluate((element) => element.scrollWidth > element.clientWidth);
    return !inField && !isCut && (told?.x ?? 0) + (told?.width ?? 0) <= 320;
  };
  await person.says("/find nowhere");
  await expect(status(page)).toHaveText("No matches");
  await expect.poll(isWhole).toBe(true);
  await expect(page.getByRole("button", { name: "Close find" })).toBeInViewport({ ratio: 1 });
  await person.says("count");
  await expect(status(page)).toHaveText("No matches; truncated output not searched");
  await expect.poll(isWhole).toBe(true);
  await expect(page.getByRole("button", { name: "Close find" })).toBeInViewport({ ratio: 1 });
  await context.close();
});

test("a hit of the search in all sessions opens the session at the newest place with its words", async ({
  page,
  serve,
}) => {
  const server = await serve({ script, args: ["--approve", "auto"] });
  const person = await visit(page, server, await server.session());
  await talk(person);
  await page.keyboard.press("Alt+s");
  await page.getByRole("searchbox", { name: "Search sessions" }).fill("bold counted");
  const hit = page.locator(".sidebar .choose").filter({ has: page.locator("mark") });
  await hit.first().click();
  await expect(field(page)).toHaveValue("bold counted");
  await expect(status(page)).toHaveText("2 of 2");
  await expect.poll(() => current(page)).toBe("bold");
  await expect.poll(() => isInView(page)).toBe(true);
});
