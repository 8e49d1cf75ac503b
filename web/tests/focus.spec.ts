/** Tests of the keyboard focus: where it is after an action, and keys that work everywhere. */
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
