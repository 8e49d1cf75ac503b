import { describe, expect, it } from "vitest";
import { isWeb } from "./links";
import { keysFor, prepareInput } from "./paste";

describe("what is pasted", () => {
  it("is typed as it is where it is one line", () => {
    expect(prepareInput("ls -l\tx é 😀")).toEqual({ text: "ls -l\tx é 😀", why: undefined });
  });

  it("is looked at first where it would run", () => {
    expect(prepareInput("a\r\nb\rc")).toMatchObject({
      text: "a\nb\nc",
      why: expect.stringContaining("3 lines"),
    });
    expect(prepareInput("rm -r x\n").why).toContain("line break");
  });

  it("holds no control characters, and cannot end its own marks", () => {
    const { text, why } = prepareInput("a\u001b[201~; rm -r /\u009b\u0003\u007f");
    expect(text).toBe("a[201~; rm -r /");
    expect(why).toContain("Control characters");
    expect(keysFor("a\nb", true)).toBe("\u001b[200~a\rb\u001b[201~");
    expect(keysFor("a\nb", false)).toBe("a\rb");
  });
});

describe("addresses", () => {
  it("lead to the web and nowhere else", () => {
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
