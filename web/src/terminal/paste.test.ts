import { describe, expect, it } from "vitest";
import { isWeb } from "./links";
import { keysFor, prepareInput } from "./paste";

describe("pasted text", () => {
  it("of one line is typed unchanged", () => {
    expect(prepareInput("ls -l\tx é 😀")).toEqual({ text: "ls -l\tx é 😀", why: undefined });
  });

  it("has to be confirmed if it would run", () => {
    expect(prepareInput("a\r\nb\rc")).toMatchObject({
      text: "a\nb\nc",
      why: expect.stringContaining("3 lines"),
    });
    expect(prepareInput("rm -r x\n").why).toContain("line break");
  });

  it("loses its control characters, and cannot end bracketed paste", () => {
    const { text, why } = prepareInput("a\u001b[201~; rm -r /\u009b\u0003\u007f");
    expect(text).toBe("a[201~; rm -r /");
    expect(why).toContain("Control characters");
    expect(keysFor("a\nb", true)).toBe("\u001b[200~a\rb\u001b[201~");
    expect(keysFor("a\nb", false)).toBe("a\rb");
  });
});

describe("links", () => {
  it("lead only to http and https addresses", () => {
    for (const good of ["http://example.org/x", "https://example.org"]) expect(isWeb(good)).toBe(true);
    for (const bad of [
      "javascript:alert(1)",
      "file:///etc/passwd",
      "data:text/html,x",
      "vscode://x",
      "x",
      "",
    ]) {
      expect(isWeb(bad)).toBe(false);
    }
  });
});
