import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, test } from "vitest";
import { BlockParser } from "./blocks";
import { Commands } from "./command-actions";
import { Markdown } from "./Markdown";

const actions = { run: () => undefined, insert: () => undefined, buffer: () => "" };
const html = (text: string) =>
  renderToStaticMarkup(
    <Commands value={actions}>
      <Markdown text={text} whole />
    </Commands>,
  );

describe("hostile text", () => {
  test("HTML is text", () => {
    for (const bad of [
      "<script>alert(1)</script>",
      "a <img src=x onerror=alert(1)> b",
      "<iframe src='//x'></iframe>",
      "<a href='javascript:x'>y</a>",
    ]) {
      const shown = html(bad);
      expect(shown).not.toMatch(/<(script|img|iframe|a)\b/);
      expect(shown).toContain("&lt;");
    }
  });

  test("links of other schemes are text, and images are not loaded", () => {
    expect(html("[x](javascript:alert(1)) <javascript:alert(1)>")).not.toContain("href");
    expect(html("[x](JAVASCRIPT&#58;alert(1))")).not.toContain("href");
    expect(html("[x](data:text/html,hi)")).not.toContain("href");
    const picture = html("![alt](https://evil.example/p.png)");
    expect(picture).not.toContain("<img");
    expect(picture).toContain('rel="noopener noreferrer"');
  });

  test("a link whose text does not match its address shows its host", () => {
    expect(html("[the docs](https://evil.example/x)")).toContain("</a> (evil.example)");
    expect(html("[https://good.example](https://evil.example/x)")).toContain("</a> (https://evil.example/x)");
    expect(html("[https://good.example/](https://good.example)")).not.toContain("</a> (");
    expect(html("<https://good.example/a>")).not.toContain("</a> (");
    expect(html("[www.good.example](https://www.good.example/)")).not.toContain("</a> (");
    expect(html("<https://good.example@evil.example/>")).toContain("</a> (evil.example)");
    expect(html("[https://good.example/](http://good.example/)")).toContain("</a> (http://good.example/)");
    expect(html("![a picture](https://evil.example/x.png)")).toContain("</a> (evil.example)");
    expect(html("[**good.example**](https://evil.example/)")).toContain("</a> (https://evil.example/)");
  });

  test("bidirectional and invisible characters are shown", () => {
    expect(html("a\u202eb")).toContain("\\u{202e}");
    expect(html("`a\u200bb`")).toContain("\\u{200b}");
    expect(html("zero\u200bwidth \u{1f469}\u200d\u{1f4bb}")).toContain("zerowidth \u{1f469}\u200d\u{1f4bb}");
    expect(html("```sh\nls\u202e\n```")).toContain("\\u{202e}");
    expect(html("<cmd>ls\u001b[2K</cmd>")).toContain("\\x1b[2K");
  });
});

describe("commands", () => {
  test("become chips, also at the beginning of a line and with Markdown in them", () => {
    const shown = html("Use <cmd>ls *.c | grep _a_</cmd> then\n\n<cmd>df -h</cmd>");
    expect(shown.match(/class="chip"/g)).toHaveLength(2);
    expect(shown).toContain("<code>ls *.c | grep _a_</code>");
    expect(shown).toContain("Run in terminal");
    expect(shown).toContain("<code>df -h</code>");
  });

  test("with invisible characters cannot be run from the page", () => {
    expect(html("<cmd>ls\u202e</cmd>")).toMatch(/<button[^>]*disabled/);
    expect(html("<cmd>ls</cmd>")).not.toMatch(/<button[^>]*disabled/);
  });

  test("without an end tag are text", () => {
    expect(html("a <cmd>ls")).not.toContain("chip");
  });

  test("of an option are never on two lines", () => {
    expect(html("`journalctl --disk-usage`")).toContain("<code>journalctl <span>--disk-usage</span></code>");
    const path = `/srv/${"a-long-name/".repeat(3)}`;
    expect(html(`\`${path}\``)).toContain(`<code>${path}</code>`);
  });

  test("in code are code", () => {
    expect(html("`<cmd>ls</cmd>`")).not.toContain("chip");
  });
});

const text =
  "# Title\n\nOne *two* three.\n\n- a\n- b\n\n  more of b\n\n1. x\n\n```sh\ndu -sh\n\n\ndf\n```\n\nlast | line\n--- | ---\n1 | 2\n\n> quote\n> more\n\nend\n===\n\n    indented\n\ttab\n\nfin";

describe("blocks", () => {
  test("do not depend on the chunks in which the text arrives", () => {
    const whole = new BlockParser().of(text, true).map(({ token }) => token.raw.trimEnd());
    for (const size of [1, 2, 3, 7, 19, 64]) {
      const grows = new BlockParser();
      for (let at = 0; at < text.length; at += size) grows.of(text.slice(0, at + size), false);
      expect(grows.of(text, true).map(({ token }) => token.raw.trimEnd())).toEqual(whole);
    }
  });

  test("that are finished stay the same objects", () => {
    const grows = new BlockParser();
    const before = grows.of("one\n\ntwo\n\nthree\n\nfour", false);
    const after = grows.of("one\n\ntwo\n\nthree\n\nfour and more", false);
    expect(after[0]).toBe(before[0]);
    expect(before.filter(({ finished }) => finished).length).toBeGreaterThan(0);
    const keys = after.map(({ key }) => key);
    expect(new Set(keys).size).toBe(keys.length);
  });

  test("are replaced if the text is not a continuation", () => {
    const grows = new BlockParser();
    grows.of("one\n\ntwo\n\nthree\n\nfour", false);
    expect(grows.of("other", true).map(({ token }) => token.raw)).toEqual(["other"]);
  });
});
