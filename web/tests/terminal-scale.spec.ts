/** The live terminal on a screen with two dots per pixel of the page, where WebGL is drawn by the CPU. */
import { expect, test, visit } from "./fixtures";
import config from "./playwright.config";

const { launchOptions } = config.use ?? {};
const WITHOUT_WEBGL = ["--disable-gpu", "--disable-software-rasterizer"];

test.use({
  deviceScaleFactor: 2,
  launchOptions: {
    ...launchOptions,
    args: launchOptions?.args?.filter((arg) => !WITHOUT_WEBGL.includes(arg)) ?? [],
  },
});

test("a terminal is drawn without WebGL if the CPU would draw it", async ({ page, serve }) => {
  const server = await serve({});
  const person = await visit(page, server, await server.session());
  const renderer = await page.evaluate(() => {
    const context = document.createElement("canvas").getContext("webgl2");
    const info = context?.getExtension("WEBGL_debug_renderer_info");
    return info && context?.getParameter(info.UNMASKED_RENDERER_WEBGL);
  });
  test.skip(
    !/swiftshader|llvmpipe/i.test(String(renderer)),
    "this machine draws WebGL by hardware, or not at all",
  );
  await person.sees("here:");
  await expect(page.locator(".terminal-slot:not(.away) canvas")).toHaveCount(0);
});
