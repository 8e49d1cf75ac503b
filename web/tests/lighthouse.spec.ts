/** Lighthouse audit of the page, run by `cargo xtask test --all`, which installs Lighthouse. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { enter, expect, test } from "./fixtures";

/** Minimum points of each category, of 100. */
const POINTS_MIN = 95;
const ALL = "performance,accessibility,best-practices";

test.describe.configure({ mode: "serial", timeout: 180_000 });

for (const [name, session, device, categories] of [
  ["the first page on a phone", false, [], ALL],
  ["the first page on a desktop", false, ["--preset=desktop"], ALL],
  ["a session on a phone", true, [], ALL],
  // The terminal takes pastes itself, to show them first: by that rule, "best practices" has fewer points.
  ["a session on a desktop", true, ["--preset=desktop"], "performance,accessibility"],
] as const) {
  test(`@lighthouse ${name}`, async ({ page, serve }) => {
    const server = await serve({});
    await enter(page.context(), server);
    const cookies = await page.context().cookies();
    const hash = session ? `#/s/${await server.session()}` : "";
    const headers = { Cookie: cookies.map(({ name, value }) => `${name}=${value}`).join("; ") };
    const root = process.getuid?.() === 0;
    const args = [
      process.env.LIGHTHOUSE ?? "",
      `${server.url}/${hash}`,
      "--quiet",
      "--output=json",
      `--only-categories=${categories}`,
      `--chrome-flags=--headless=new --disable-gpu ${root ? "--no-sandbox" : ""}`,
      `--extra-headers=${JSON.stringify(headers)}`,
      ...device,
    ];
    const env = { ...process.env, CHROME_PATH: process.env.CHROMIUM ?? "/usr/bin/chromium" };
    const { stdout } = await promisify(execFile)(process.execPath, args, { env, maxBuffer: 100_000_000 });
    const told = JSON.parse(stdout) as { categories: Record<string, { score: number }> };
    for (const [category, { score }] of Object.entries(told.categories)) {
      test.info().annotations.push({ type: category, description: String(Math.round(score * 100)) });
      expect.soft(Math.round(score * 100), category).toBeGreaterThanOrEqual(POINTS_MIN);
    }
    expect(Object.keys(told.categories)).toHaveLength(categories.split(",").length);
  });
}
