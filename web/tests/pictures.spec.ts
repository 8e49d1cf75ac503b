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

function tasks(...states: readonly string[]) {
  const texts = ["See what the rotation did", "Back up the archives", "Remove the oldest archive"];
  return texts.map((text, at) => ({ text, state: states[at] }));
}

const script = {
  "look tidy": [call("run_command", { command: "clear", reasoning: "Clear the screen." }), say("Done.")],
  "disk on web1": [
    call("run_command", { command: "ls -sh logs | tail -5", reasoning: "Find the large files." }),
    call("run_command", { command: "df -h / | tail -1", reasoning: "Check the free space." }),
    call("run_command", { command: "rm -rf logs/archive-2024-0*", reasoning: "Remove old archives." }),
    say(ANSWER),
  ],
  "how full": [say("Ask the system: <cmd>df -h /</cmd> shows how full the disk is.")],
  "more workers": [
    call("edit_file", {
      path: "nginx.conf",
      old_string: "user www-data;\nworker_processes 2;\n\nserver {\n}\n",
      new_string: "user www-data;\nworker_processes 4;\nworker_rlimit_nofile 8192;\n\nserver {\n}\n",
      reason: "The machine has four cores.",
    }),
    say("nginx has four workers now."),
  ],
  "why is journald": [say("It writes 40 lines a second to the disk, most of them from `app.service`.")],
  "old releases": [
    call("bash", {
      command: "sudo rm -rf /opt/app/releases/2024-* && sudo systemctl restart app",
      reason: "Releases of last year take 9 GB.",
    }),
  ],
  "Hosts of the session:": [
    say(
      JSON.stringify({
        facts: [{ host: "local", fact: "All rotations from 2024-01 to 2024-09 succeeded." }],
        open: ["The backup of logs to backup.tar is not complete."],
        next: ["Remove the oldest archive once backup.tar is there."],
      }),
    ),
  ],
  "back up the archives": [
    call("todo", { items: tasks("active", "pending", "pending") }),
    call("read_file", { path: "rotate.log" }),
    call("todo", { items: tasks("done", "active", "pending") }),
    call("bash", { command: "tar -cf backup.tar logs && sleep 3600", background: true }),
    say("The backup runs in the background; I remove nothing until it is there."),
  ],
  "restart the app": [call("bash", { command: "sh restart-app" }), say("Eleven of twelve hosts are up.")],
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
  await dialog.getByRole("button", { name: "Start session" }).click();
  await expect(person.tabs).toHaveCount(1);
  await person.sees(/[$#] /);
  await person.types(" PS1='\\[\\e[32m\\]web1\\[\\e[0m\\]:\\w$ '; clear\r");
  await person.sees(/web1:\S*\$ /);
  // The next call reports the keys typed so far; it must not be in the picture.
  await person.says("look tidy");
  await expect(person.conversation).toContainText("Done.");
  // A click right after the end of a turn is taken for one on Stop.
  await expect(async () => {
    await person.button(/New chat/).click();
    await expect(person.steps).toHaveCount(0, { timeout: 500 });
  }).toPass();
  const list = page.getByRole("button", { name: "Close list" });
  if (await list.isVisible()) await list.click();

  await person.says("the disk on web1 is almost full: find out why and free some space");
  await expect(person.review).toContainText("rm -rf");
  await page.screenshot({ path: join(folder, "page-review.png") });
  await person.button(/^Run/).click();
  await expect(page.locator("table")).toBeVisible();
  await page.evaluate(() => document.fonts.ready);
  await page.screenshot({ path: join(folder, "page-answer.png") });

  await page.emulateMedia({ colorScheme: "light" });
  await person.button(/^(Agent|Chat) mode$/).click();
  await person.says("how full is it?");
  await expect(person.button(/Run in terminal/).first()).toBeVisible();
  await page.screenshot({ path: join(folder, "page-chat.png") });

  await page.setViewportSize({ width: 390, height: 780 });
  await expect(person.button("Conversation")).toBeVisible();
  await page.screenshot({ path: join(folder, "page-phone.png") });
});

test("@picture of a diff, the list of sessions, the palette and a phone", async ({ page, serve }) => {
  const server = await serve({ script });
  writeFileSync(join(server.work, "nginx.conf"), "user www-data;\nworker_processes 2;\n\nserver {\n}\n");
  await page.goto(`${server.url}/`);
  await page.setViewportSize({ width: 1024, height: 720 });
  await page.emulateMedia({ colorScheme: "light" });
  await page.screenshot({ path: join(folder, "page-sign-in.png") });
  await page.goto("about:blank");

  await page.setViewportSize({ width: 1440, height: 900 });
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await person.types(" PS1='web1:~$ '; clear\r");
  await person.sees(/web1:~\$ /);
  await person.button("Return control").click();
  await person.says("more workers for nginx");
  await expect(person.review).toBeVisible();
  await page.screenshot({ path: join(folder, "page-diff.png") });
  await person.button(/^Apply/).click();
  await expect(person.conversation).toContainText("nginx has four workers now.");

  for (const prompt of ["why is journald so busy?", "how full is the disk?"]) {
    await visit(page, server, await server.session());
    await person.says(prompt);
    await expect(person.button(/Retry/)).toBeVisible();
  }
  await person.button("Sessions").click();
  const list = page.getByRole("navigation", { name: "Sessions" });
  await list.getByRole("button", { name: "Actions for why is journald so busy?" }).click();
  await list.getByRole("button", { name: "Pin" }).click();
  await list.getByRole("searchbox").fill("disk");
  await expect(list.locator(".excerpt").first()).toBeVisible();
  await page.screenshot({ path: join(folder, "page-search.png") });

  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 1024, height: 720 });
  await person.prompt.focus();
  await page.keyboard.press("F1");
  await expect(page.getByRole("dialog", { name: "Command palette" })).toBeVisible();
  await page.screenshot({ path: join(folder, "page-palette.png") });
  await page.keyboard.press("Escape");

  await page.setViewportSize({ width: 390, height: 780 });
  await person.says("clean up the old releases");
  await expect(person.review).toBeVisible();
  await page.screenshot({ path: join(folder, "page-phone-review.png") });
  await page.getByRole("button", { name: "Terminal", exact: true }).click();
  await person.sees("here:");
  await person.types(" PS1='web1:~$ '; clear; ls -l /etc/hostname; uptime\r");
  await person.sees("load average");
  await page.screenshot({ path: join(folder, "page-phone-terminal.png") });
});

test("@picture of several hosts", async ({ page, serve, sshd }) => {
  const names = Array.from({ length: 12 }, (_, at) => `app${String(at + 1).padStart(2, "0")}`);
  const far = await sshd("", names.join(" "));
  // The hosts are one machine: each call takes a number, and some of them wait for the picture.
  const turn =
    "until mkdir .lock 2>/dev/null; do :; done; n=$(ls .turns 2>/dev/null | wc -l); mkdir -p .turns/$n; rmdir .lock";
  writeFileSync(
    join(far.home, "restart-app"),
    `#!/bin/sh\ncd; ${turn}\n[ $n -lt 7 ] || until [ -e go ]; do sleep 0.1; done\n[ $n != 3 ] || { echo 'app.service: start failed'; exit 1; }\necho 'app.service: active'\n`,
    { mode: 0o755 },
  );
  const server = await serve({
    script,
    args: ["--approve", "auto"],
    env: { SYSOP_SSH_CONFIG: far.config },
  });
  await page.setViewportSize({ width: 1440, height: 900 });
  const id = await server.session({ host: names.join(","), root: far.home });
  const person = await visit(page, server, id);
  await person.says("restart the app everywhere");
  await expect(person.review.or(page.getByText("7/12 done"))).toBeVisible();
  if (await person.review.isVisible()) await person.button(/^Run/).click();
  await expect(page.getByText("7/12 done")).toBeVisible();
  await page.screenshot({ path: join(folder, "page-fleet.png") });
  writeFileSync(join(far.home, "go"), "");
  await expect(page.getByText("12/12 done")).toBeVisible();
});

test("@picture of a task list, a background job and a compacted context", async ({ page, serve }) => {
  const server = await serve({ script, args: ["--approve", "auto"] });
  mkdirSync(join(server.work, "logs"));
  const months = Array.from({ length: 9 }, (_, at) => `2024-0${at + 1}`);
  const rotated = months.map((month) => `${month}-01 rotated logs/archive-${month}.tar, 0 errors`);
  writeFileSync(join(server.work, "rotate.log"), `${rotated.join("\n")}\n`.repeat(20));
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  const person = await visit(page, server, await server.session());
  await person.says("back up the archives, then remove the oldest one");
  await expect(person.conversation).toContainText("I remove nothing until it is there");
  await person.says("/compact the backup");
  await expect(person.conversation).toContainText("context compacted");
  await page.screenshot({ path: join(folder, "page-long-task.png") });
});
