import { expect, test } from "vitest";
import { lazyPart } from "./lazy-part";

test("a part is loaded once, and is there without waiting afterwards", async () => {
  let count = 0;
  const part = lazyPart(async () => {
    count += 1;
    return "code";
  });
  expect(part.loaded).toBeUndefined();
  part.preload();
  expect(await part.load()).toBe("code");
  expect(await part.load()).toBe("code");
  expect(part.loaded).toBe("code");
  expect(count).toBe(1);
});

test("a part that could not be loaded is loaded again when it is wanted", async () => {
  let online = false;
  const part = lazyPart(async () => {
    if (!online) throw new Error("offline");
    return "code";
  });
  part.preload();
  await expect(part.load()).rejects.toThrow("offline");
  online = true;
  expect(await part.load()).toBe("code");
});
