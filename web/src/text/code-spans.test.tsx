import { renderToString } from "preact-render-to-string";
import { expect, test } from "vitest";
import { CodeSpans, codeSpan, withoutFences } from "./CodeSpans";

const shown = (text: string) => renderToString(<CodeSpans text={text} />);

test("code spans are shown as code, also with backticks and markup in them", () => {
  expect(shown("send `continue`, or wait")).toBe("send <code>continue</code>, or wait");
  expect(shown(`job: ${codeSpan("echo `date` <b>")}`)).toBe("job: <code>echo `date` &lt;b></code>");
  expect(shown(codeSpan("a ``b`` `c`"))).toBe("<code>a ``b`` `c`</code>");
  expect(shown("no end: `x")).toBe("no end: `x");
  expect(shown("``` a `b` c")).toBe("``` a <code>b</code> c");
});

test("without their fences, code spans are plain text", () => {
  expect(withoutFences(`set to \`ask\`; ${codeSpan("echo `x`")}`)).toBe("set to ask; echo `x`");
});
