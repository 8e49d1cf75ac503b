/** Configuration of the browser tests (`cargo xtask web --test`), which use the system's Chromium. */
import { defineConfig } from "@playwright/test";

const chromium = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** As root, and in a container, Chromium has no sandbox of its own. */
const root = process.getuid?.() === 0;

export default defineConfig({
  testDir: ".",
  fullyParallel: true,
  forbidOnly: true,
  /** Others ask for these by name. */
  grepInvert:
    process.env.BENCH_NUMBERS || process.env.PICTURES || process.env.LIGHTHOUSE
      ? undefined
      : /@bench|@picture|@lighthouse/,
  workers: 2,
  timeout: 60_000,
  expect: { timeout: 20_000 },
  reporter: [["list"]],
  outputDir: process.env.TEST_RESULTS ?? "../../target/page-tests",
  use: {
    browserName: "chromium",
    viewport: { width: 1400, height: 900 },
    launchOptions: {
      executablePath: chromium,
      args: [
        ...(root ? ["--no-sandbox"] : []),
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-software-rasterizer",
      ],
    },
    trace: "off",
    screenshot: "only-on-failure",
  },
});
