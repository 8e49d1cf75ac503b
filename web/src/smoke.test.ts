import { expect, test } from "vitest";

test("the page's title is in its document", async () => {
  const { readFile } = await import("node:fs/promises");
  expect(await readFile("index.html", "utf8")).toContain("<title>sysop</title>");
});
