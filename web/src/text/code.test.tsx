// @vitest-environment happy-dom
import { createRoot } from "react-dom/client";
import { expect, test, vi } from "vitest";
import { Code } from "./Code";

test("code is shown at once, and colored when the browser is idle", async () => {
  const waiting: (() => void)[] = [];
  vi.stubGlobal("requestIdleCallback", (act: () => void) => waiting.push(act));
  const root = createRoot(document.body);
  root.render(<Code text="if true" language="sh" finished />);
  const code = document.querySelector("code");
  expect(code?.textContent).toBe("if true");
  // Loading the highlighter and using it each wait until the browser is idle.
  for (let tasks = 0; tasks < 2; tasks++) {
    await vi.waitUntil(() => waiting.length > 0, { timeout: 10_000 });
    expect(code?.children).toHaveLength(0);
    waiting.shift()?.();
  }
  await vi.waitUntil(() => code?.querySelector(".hl-keyword"), { timeout: 10_000 });
  expect(code?.textContent).toBe("if true");
  root.unmount();

  const again = createRoot(document.body);
  again.render(<Code text="if false" language="sh" finished />);
  await vi.waitUntil(() => document.querySelector("code .hl-keyword"), { timeout: 10_000 });
  expect(waiting).toHaveLength(0); // a loaded highlighter is not waited for
  again.unmount();
  vi.unstubAllGlobals();
});
