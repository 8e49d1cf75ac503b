/** Images that a person puts into a prompt on the page. */
import { expect, say, test, visit } from "./fixtures";

/** A red pixel. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

test("a chosen image and a pasted one are sent with the prompt", async ({ page, serve }) => {
  const server = await serve({
    script: { "What is this": [say("A red pixel.")], "And this": [say("Also red.")] },
  });
  const person = await visit(page, server, await server.session());
  const chips = page.getByRole("list", { name: "Attached images" }).getByRole("listitem");
  await page
    .locator('input[type="file"]')
    .setInputFiles([{ name: "red.png", mimeType: "image/png", buffer: Buffer.from(PNG, "base64") }]);
  await expect(chips).toContainText(["red.png 1×1"]);
  await person.prompt.fill("What is this");
  await person.prompt.press("Enter");
  await expect(chips).toHaveCount(0);
  await expect(person.conversation).toContainText("image 1×1 red.png");
  await expect(person.conversation).toContainText("A red pixel.");

  await person.prompt.evaluate((field, png) => {
    const bytes = Uint8Array.from(atob(png), (character) => character.charCodeAt(0));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([bytes], "pasted.png", { type: "image/png" }));
    field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  }, PNG);
  await expect(chips).toContainText(["pasted.png 1×1"]);
  await person.prompt.fill("And this");
  await person.prompt.press("Enter");
  await expect(person.conversation).toContainText("Also red.");
});

test("a file that is not an image is refused with the reason, and an attached image can be removed", async ({
  page,
  serve,
}) => {
  const server = await serve({ script: {} });
  await visit(page, server, await server.session());
  const chips = page.getByRole("list", { name: "Attached images" }).getByRole("listitem");
  const choose = (name: string, buffer: Buffer) =>
    page.locator('input[type="file"]').setInputFiles([{ name, mimeType: "image/png", buffer }]);
  await choose("notes.png", Buffer.from("only text"));
  await expect(page.getByRole("alert")).toContainText("not a PNG, JPEG, GIF or WebP image");
  await choose("red.png", Buffer.from(PNG, "base64"));
  await expect(chips).toHaveCount(1);
  await expect(page.getByRole("alert")).toHaveCount(0);
  await page.getByRole("button", { name: "Remove red.png" }).click();
  await expect(chips).toHaveCount(0);
});
