import { renderToString } from "preact-render-to-string";
import { expect, test } from "vitest";
import { emptyTranscript, fold, pendingApproval } from "../state/transcript";
import type { ServerMessage } from "../wire";
import { Watching } from "./Watching";

test("a guest sees the reason and the risk of a proposal", () => {
  const request = {
    type: "approval.request",
    sessionId: "s",
    seq: 1,
    toolCallId: "c",
    name: "bash",
    arguments: {},
    command: "rm -rf old",
    reason: "It is old.",
    risk: "dangerous",
  };
  const step = pendingApproval(fold(emptyTranscript, [request as unknown as ServerMessage]));
  const html = renderToString(<Watching step={step} />);
  expect(html).toContain('<span class="risk dangerous">dangerous</span> It is old.');
});
