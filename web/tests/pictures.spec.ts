/** Pictures of the page for the README: `cargo xtask pictures`. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { call, expect, say, test, visit } from "./fixtures";

const folder = process.env.PICTURES ?? "../../docs/pictures";

test.use({ viewport: { width: 1280, height: 800 }, colorScheme: "dark" });

const ANSWER = `## What I found

The disk was full of old archives in \`logs\`:

| files | size |
| --- | --- |
| archives of 2024 | 4.1 MB |
| everything else | 12 KB |

To keep it that way, delete old archives every month:

\`\`\`sh
find logs -name '*.tar' -mtime +60 -delete
\`\`\`
`;

const script = {
  "look tidy": [call("run_command", { command: "clear", reasoning: "Clear the screen." }), say("Done.")],
  "disk on web1": [
    call("run_command", { command: "ls -sh logs | tail -5", reasoning: "Find the large files." }),
    call("run_command", { command: "df -h / | tail -1", reasoning: "Check the free space." }),
    call("run_command", { command: "rm -rf logs/archive-2024-0*", reasoning: "Remove old archives." }),
    say(ANSWER),
  ],
  "how full": [say("Ask the system: <cmd>df -h /</cmd> shows how full the disk is.")],
};

test("@picture of the page at work", async ({ page, serve, sshd }) => {
  const far = await sshd("", "web1");
  mkdirSync(join(far.home, "logs"));
  for (let month = 1; month <= 9; month += 1) {
    writeFileSync(join(far.home, `logs/archive-2024-0${month}.tar`), Buffer.alloc(300_000 + 40_000 * month));
  }
  const server = await serve({ script, args: ["--approve", "auto"], env: { SYSOP_SSH_CONFIG: far.config } });
  const person = await visit(page, server);
  await person.button("New session").first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: /^web1/ }).click();
  await page.screenshot({ path: join(folder, "page-connect.png") });
  await dialog.getByLabel("Root directory").fill(far.home);
  await dialog.getByRole("button", { name: "Connect" }).click();
  await expect(person.tabs).toHaveCount(1);
  await person.sees(/[$#] /);
  await person.types(" PS1='\\[\\e[32m\\]web1\\[\\e[0m\\]:\\w$ '; clear\r");
  await person.sees(/web1:\S*\$ /);
  // The next call reports the keys typed so far; it must not be in the picture.
  await person.says("look tidy");
  await expect(person.conversation).toContainText("Done.");
  await person.button(/New Chat/).click();
  await expect(person.steps).toHaveCount(0);
  const list = page.getByRole("button", { name: "Close list" });
  if (await list.isVisible()) await list.click();

  await person.says("the disk on web1 is almost full: find out why and free some space");
  await expect(person.review).toContainText("rm -rf");
  await page.screenshot({ path: join(folder, "page-review.png") });
  await person.button(/^Run/).click();
  await expect(page.locator("table")).toBeVisible();
  await page.evaluate(() => document.fonts.ready);
  await page.screenshot({ path: join(folder, "page-answer.png") });

  await person.button(/^Theme/).click();
  await person.button(/Agent$/).click();
  await person.says("how full is it?");
  await expect(person.button(/Run in terminal/).first()).toBeVisible();
  await page.screenshot({ path: join(folder, "page-chat.png") });

  await page.setViewportSize({ width: 390, height: 780 });
  await expect(person.button("Conversation")).toBeVisible();
  await page.screenshot({ path: join(folder, "page-phone.png") });
});
