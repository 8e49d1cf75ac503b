/** Progress of a slow model: reading the prompt, then the reply. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { call, expect, test, visit } from "./fixtures";

const chunk = (response: ServerResponse, body: unknown) =>
  response.write(
    `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [], ...(body as object) })}\n\n`,
  );
const delta = (content: string, finish: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason: finish }],
});

test("the progress of a slow model is shown above the prompt until it has answered", async ({
  page,
  serve,
}) => {
  let reply: ServerResponse | undefined;
  const model = createServer((request, response) => {
    if (request.method !== "POST") {
      response.writeHead(404).end();
      return;
    }
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    chunk(response, { prompt_progress: { total: 2_048, cache: 0, processed: 512, time_ms: 900 } });
    reply = response;
  });
  await new Promise<void>((resolve) => model.listen(0, "127.0.0.1", resolve));
  const { port } = model.address() as AddressInfo;
  const server = await serve({
    env: { SYSOP_PROVIDERS__OPENAI__BASE_URL: `http://127.0.0.1:${port}/v1`, SYSOP_MODEL: "openai/slow" },
  });
  const person = await visit(page, server, await server.session());
  await person.says("think hard");
  const live = page.locator(".live.busy");
  await expect(live).toContainText("slow: reading the prompt: 512 of 2048 tokens (25 %)");
  const bar = page.getByRole("progressbar", { name: "Prompt tokens read" });
  await expect(bar).toHaveAttribute("value", "512");

  // The rate of a reply is shown only if the reply takes long enough.
  const told = expect(live).toContainText(/slow: \d+ tokens received, \d+ per second/);
  const feed = setInterval(() => reply && chunk(reply, delta("many words ")), 50);
  await told;
  clearInterval(feed);
  await expect(bar).toHaveCount(0);
  if (!reply) throw new Error("the model was not asked");
  chunk(reply, delta("at last.", "stop"));
  reply.end("data: [DONE]\n\n");
  await expect(person.conversation).toContainText("at last.");
  await expect(live).toHaveCount(0);
  model.closeAllConnections();
  model.close();
});

test("a stop moves the prompts that wait back to the composer", async ({ page, serve }) => {
  const server = await serve({
    args: ["--approve", "auto"],
    script: { wait: [call("bash", { command: "until [ -e go ]; do sleep 0.05; done" })] },
  });
  const person = await visit(page, server, await server.session());
  await person.says("wait for it");
  await expect(person.conversation).toContainText("running until");
  await person.says("then restart web1");
  await person.says("and web2");
  const queued = page.getByRole("list", { name: "Queued prompts" }).getByRole("listitem");
  const rows = [/^queued ?then restart web1/, /^queued ?and web2/];
  await expect(queued).toHaveText(rows);
  await page.reload();
  await expect(queued).toHaveText(rows);
  await person.prompt.fill("a draft");
  await person.button(/Stop/).click();
  await expect(person.conversation.locator(".end").last()).toHaveText("stopped");
  await expect(queued).toHaveCount(0);
  await expect(person.prompt).toHaveValue("then restart web1\nand web2\na draft");
});
