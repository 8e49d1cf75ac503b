import { expect, test } from "vitest";
import { defaultShare } from "./SplitPane";

test("the terminal gets 80 columns where the conversation keeps its width, and never less than before", () => {
  const pixels = (width: number, fontSize: number) =>
    Math.round((defaultShare(width, fontSize) / 100) * width);
  expect(pixels(1440, 13)).toBe(666);
  expect(pixels(1440, 16)).toBe(813);
  expect(pixels(1024, 13)).toBe(1024 - 480);
  expect(pixels(2500, 13)).toBe(1000);
  expect(pixels(770, 13)).toBe(308);
  expect(defaultShare(0, 13)).toBe(40);
});
