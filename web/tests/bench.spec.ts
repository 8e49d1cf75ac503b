/** Benchmarks of the page (`cargo xtask bench page`). Prints one name and number per line. */
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { CDPSession, Page } from "@playwright/test";
import { enter, expect, Person, say, type TestServer, test, visit } from "./fixtures";
import { run } from "./processes";

test.describe.configure({ timeout: 600_000 });

const NUMBERS = process.env.BENCH_NUMBERS ?? "/dev/stdout";
const ROUNDS = 7;
const FLOOD_BYTES = 100_000_000;
const TURNS = 5_000;
const SOAK_MS = Number(process.env.BENCH_SOAK_S ?? 60) * 1000;

function note(name: string, value: number): void {
  appendFileSync(NUMBERS, `${name} ${value.toFixed(2)}\n`);
}

test("@bench the time to the first paint, and the bytes loaded for it", async ({ browser, serve }) => {
  const server = await serve({});
  const id = await server.session();
  let [paint, size] = [Number.POSITIVE_INFINITY, 0];
  const first = await browser.newContext();
  await enter(first, server);
  const cookies = await first.cookies();
  await first.close();
  for (let round = 0; round < ROUNDS; round += 1) {
    const context = await browser.newContext(); // with nothing kept
    await context.addCookies(cookies);
    const page = await context.newPage();
    await page.goto(`${server.url}/#/s/${id}`);
    const seen = await page.waitForFunction(
      () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
    );
    paint = Math.min(paint, (await seen.jsonValue()) ?? Number.POSITIVE_INFINITY);
    await expect(new Person(page).prompt).toBeVisible();
    await context.close();
  }
  const assets = join(import.meta.dirname, "../dist/assets");
  for (const name of readdirSync(assets).filter((file) => file.endsWith(".js"))) {
    size += gzipSync(readFileSync(join(assets, name)), { level: 9 }).length;
  }
  note("first_paint_ms", paint);
  note("scripts_gzip_kib", size / 1024);
});

test("@bench a flood through a terminal", async ({ page, serve }) => {
  const server = await serve({});
  const file = flood(server.work);
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  await watchTasks(page);
  await person.types(`cat ${file}; echo the-$((6*7))-end`);
  const took = await timed(page, ".terminal-slot .xterm-rows");
  note("flood_mb_per_s", FLOOD_BYTES / 1e6 / (took / 1000));
  note("flood_longest_task_ms", await longest(page));
});

test("@bench the same flood through wetty", async ({ page }) => {
  const wetty = process.env.WETTY;
  test.skip(!wetty, "wetty is not installed");
  const folder = test.info().outputPath("wetty");
  mkdirSync(folder, { recursive: true });
  const file = flood(folder);
  writeFileSync(join(folder, ".bashrc"), "PS1='here:\\w$ '; unset HISTFILE\n");
  const env = { ...process.env, HOME: folder };
  const port = 20_000 + (process.pid % 20_000);
  const shell = ["--command", "bash", "--host", "127.0.0.1", "--port", String(port), "--base", "/"];
  const server = run(process.execPath, [wetty ?? "", ...shell], env, folder);
  try {
    await expect(async () => {
      await page.goto(`http://127.0.0.1:${port}/`);
    }).toPass();
    await expect(page.locator(".xterm-rows")).toContainText(/[$#] /);
    await watchTasks(page);
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.type(`cat ${file}; echo the-$((6*7))-end`);
    const took = await timed(page, ".xterm-rows");
    note("wetty_mb_per_s", FLOOD_BYTES / 1e6 / (took / 1000));
    note("wetty_longest_task_ms", await longest(page));
  } finally {
    await server.end();
  }
});

/** A file of many lines. */
function flood(folder: string): string {
  const file = join(folder, "flood.txt");
  writeFileSync(file, `${"x".repeat(99)}\n`.repeat(FLOOD_BYTES / 100));
  return file;
}

/** Presses Enter, and returns the milliseconds until the end of the flood is visible. */
async function timed(page: Page, rows: string): Promise<number> {
  const seen = page.evaluate((where) => {
    const begun = performance.now();
    return new Promise<number>((resolve) => {
      const look = () => {
        const text = document.querySelector(where)?.textContent ?? "";
        if (text.includes("the-42-end")) resolve(performance.now() - begun);
        else setTimeout(look, 20);
      };
      look();
    });
  }, rows);
  await page.keyboard.press("Enter");
  return seen;
}

async function watchTasks(page: Page): Promise<void> {
  await page.evaluate(() => {
    const noted = window as unknown as { longest: number };
    noted.longest = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) noted.longest = Math.max(noted.longest, duration);
    }).observe({ entryTypes: ["longtask"] });
  });
}

async function longest(page: Page): Promise<number> {
  return page.evaluate(() => (window as unknown as { longest: number }).longest);
}

test("@bench a long session scrolls", async ({ page, serve }) => {
  const server = await serve({
    script: { word: [say("An answer with `code` and **weight**.\n\n- one\n- two")] },
  });
  const id = await longSession(server);
  const begun = Date.now();
  const person = await visit(page, server, id);
  await expect(person.conversation).toContainText(`word ${TURNS - 1}`);
  note("long_session_open_ms", Date.now() - begun);
  const { frames, worst } = await page.evaluate(async () => {
    const list = [...document.querySelectorAll<HTMLElement>("*")].find(
      (element) => element.closest(".conversation") && element.scrollHeight > 4 * element.clientHeight,
    );
    if (!list) throw new Error("nothing scrolls");
    let [frames, worst, last] = [0, 0, performance.now()];
    const begun = last;
    while (last - begun < 3000) {
      list.scrollTop -= 400;
      const now = await new Promise<number>((resolve) => requestAnimationFrame(resolve));
      worst = Math.max(worst, now - last);
      [frames, last] = [frames + 1, now];
    }
    return { frames: (frames * 1000) / (last - begun), worst };
  });
  note("scroll_fps", frames);
  note("scroll_worst_frame_ms", worst);
});

/** Makes of a session's only turn as many as there shall be, in another session: id, which turns, the store's file. */
const MULTIPLY = `
import sqlite3, sys
of, id, turns, file = sys.argv[1:]
turns = int(turns)
with sqlite3.connect(file, timeout=30) as store:
    first, last = store.execute("SELECT min(seq), max(seq) FROM events WHERE session = ? AND seq > 1", [of]).fetchone()
    step = last - first + 1
    names = [column[1] for column in store.execute("PRAGMA table_info(sessions)")]
    values = ", ".join({"id": "?1", "last_seq": "1 + ?2 * ?3"}.get(name, name) for name in names)
    store.execute(f"INSERT INTO sessions SELECT {values} FROM sessions WHERE id = ?4", [id, turns, step, of])
    store.execute("INSERT INTO events SELECT ?, seq, at, body FROM events WHERE session = ? AND seq = 1", [id, of])
    store.execute("""WITH RECURSIVE turns(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM turns WHERE n < ?)
        INSERT INTO events SELECT ?, seq + (n - 1) * ?, at,
            json_replace(body, '$.turn', n, '$.step.turn', n, '$.prompt', 'word ' || (n - 1))
        FROM turns, events WHERE session = ? AND seq > 1 ORDER BY n, seq""", [turns, id, step, of])
`;

/** A session with twice as many messages as turns. One turn is real; the others are written into the store. */
async function longSession(server: TestServer): Promise<string> {
  const one = await server.session();
  await server.request("POST", `/api/agent/sessions/${one}/messages`, { content: "word" });
  await idle(server, one, 1);
  const id = `${one.slice(0, -4)}${one.endsWith("aaaa") ? "bbbb" : "aaaa"}`;
  const file = join(server.home, ".local/share/sysop/sysop.db");
  execFileSync("python3", ["-c", MULTIPLY, one, id, String(TURNS), file]);
  await idle(server, id, TURNS);
  return id;
}

async function idle(server: TestServer, id: string, turn: number): Promise<void> {
  await expect(async () => {
    const shown = (await (await server.request("GET", `/api/agent/sessions/${id}`)).json()) as {
      state: { state: string; turn: number };
    };
    expect(shown.state).toMatchObject({ state: "idle", turn });
  }).toPass({ timeout: 60_000 });
}

test("@bench the memory of a page that streams", async ({ page, serve }) => {
  const words = say("word ", { repeat_text: 2_000, chunk_delay_ms: 1 });
  const server = await serve({ script: { stream: [words] } });
  const person = await visit(page, server, await server.session());
  await person.sees("here:");
  // The scrollback is filled first, so that filling it does not count as a leak.
  await person.types("seq 12000; while :; do date +%s.%N; sleep 0.02; done\r");
  const devtools = await page.context().newCDPSession(page);
  const until = Date.now() + SOAK_MS;
  const heaps: number[] = [];
  while (Date.now() < until) {
    await person.says("stream");
    await expect(person.button(/Retry/)).toBeVisible({ timeout: 60_000 });
    heaps.push(await heap(devtools));
  }
  // The first turns fill the bounded buffers.
  const settled = heaps.slice(Math.floor(heaps.length / 3));
  note("soak_turns", heaps.length);
  note("soak_heap_mib", settled.at(-1) ?? 0);
  note("soak_heap_growth_mib", (settled.at(-1) ?? 0) - (settled[0] ?? 0));
});

/** Heap size of the scripts after garbage collection, in MiB. */
async function heap(devtools: CDPSession): Promise<number> {
  await devtools.send("HeapProfiler.collectGarbage");
  const used = await devtools.send("Runtime.getHeapUsage");
  // Objects, what the browser holds for them, and the buffers of the terminal.
  const { usedSize, embedderHeapUsedSize, backingStorageSize } = used;
  return (usedSize + embedderHeapUsedSize + backingStorageSize) / 1024 / 1024;
}
