import { expect, test } from "vitest";
import { sentences } from "./sentences";

test("each sentence ends with one mark", () => {
  expect(sentences(["bash ended: ok", "Done.", "Approve this command? rm x", 'It said "no."'])).toBe(
    'bash ended: ok. Done. Approve this command? rm x. It said "no."',
  );
});
