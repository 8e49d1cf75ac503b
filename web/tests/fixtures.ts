/** Fixtures: a scripted model, a server with its own home directory, a user with a browser, and a remote machine. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, test as base, expect, type Locator, type Page } from "@playwright/test";
import { type BlockingProxy, type SocketFault, startBlockingProxy } from "./blocking-proxy";
import { run } from "./processes";
import { type Sshd, startSshd } from "./sshd";

/** Replies of the scripted model, by text in the prompt. */
export type Script = Record<string, Reply[]>;
/** A reply in the form of the mock's scenario file. */
export type Reply = Record<string, unknown>;

/** A reply that says something. */
export const say = (content: string, more: Reply = {}): Reply => ({ content, ...more });

let calls = 0;
/** A reply that calls a tool. */
export function call(name: string, args: Record<string, unknown>, more: Reply = {}): Reply {
  calls += 1;
  const made = { name, arguments: JSON.stringify(args) };
  return { tool_calls: [{ id: `call_${calls}`, type: "function", function: made }], ...more };
}

export interface TestServer {
  /** Without a `/` at its end. */
  url: string;
  token: string;
  /** Root of the sessions. */
  work: string;
  home: string;
  /** Everything that was logged. */
  said(): string;
  request(method: string, path: string, body?: unknown): Promise<Response>;
  /** Creates a session and returns its id. */
  session(wish?: Record<string, unknown>): Promise<string>;
  /** Creates a token of another name that may operate and decide. */
  createToken(name: string): string;
  /** Revokes the token of that name. */
  revokeToken(name: string): void;
  /** Kills the server like a power failure, and restarts it at the same address. */
  restart(): Promise<void>;
}

export interface ServeOptions {
  script?: Script;
  args?: string[];
  env?: NodeJS.ProcessEnv;
  /** The config file. */
  config?: string;
}

interface Fixtures {
  /** Starts the server; call it once per test. */
  serve(how: ServeOptions): Promise<TestServer>;
  /** A remote machine that `ssh` calls `far`, or by another name. */
  sshd(passphrase?: string, name?: string): Promise<Sshd>;
  /** Proxy in front of a server that blocks WebSockets. */
  blockingProxy(blocks: SocketFault): Promise<BlockingProxy>;
}

const SYSOP = process.env.SYSOP ?? "../../target/debug/sysop";

export const test = base.extend<Fixtures>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright wants it so
  serve: async ({}, use) => {
    if (!existsSync(SYSOP)) throw new Error(`${SYSOP} is not there; run \`cargo xtask web --test\``);
    const folder = mkdtempSync(join(tmpdir(), "sysop-page-"));
    const ends: (() => Promise<void>)[] = [];
    await use((how) => startServer(folder, ends, how));
    for (const end of ends.reverse()) await end();
    await removeFolder(folder);
  },
  // biome-ignore lint/correctness/noEmptyPattern: Playwright wants it so
  sshd: async ({}, use) => {
    const folder = mkdtempSync(join(tmpdir(), "sysop-sshd-"));
    const started: Sshd[] = [];
    await use(async (passphrase, name) => {
      const sshd = await startSshd(folder, passphrase, name);
      started.push(sshd);
      return sshd;
    });
    for (const sshd of started) await sshd.end();
    await removeFolder(folder);
  },
  // biome-ignore lint/correctness/noEmptyPattern: Playwright wants it so
  blockingProxy: async ({}, use) => {
    const started: BlockingProxy[] = [];
    await use(async (blocks) => {
      const proxy = await startBlockingProxy(blocks);
      started.push(proxy);
      return proxy;
    });
    for (const proxy of started) await proxy.end();
  },
});

/**
 * A shell of a killed server may still be writing pre-images into the folder. Unlike `rmSync`, `rm` lists a folder
 * again when it tries again.
 */
const removeFolder = (folder: string) => rm(folder, { recursive: true, force: true, maxRetries: 8 });

async function startServer(
  folder: string,
  ends: (() => Promise<void>)[],
  how: ServeOptions,
): Promise<TestServer> {
  const { script = {}, args = [], env = {}, config = "" } = how;
  const [home, work] = [join(folder, "home"), join(folder, "work")];
  for (const made of [home, work]) mkdirSync(made, { recursive: true });
  // A shell that outlives its server by a moment would save its history into a home that is being removed.
  writeFileSync(join(home, ".bashrc"), "PS1='here:\\w$ '; unset HISTFILE\n");
  mkdirSync(join(home, ".config/sysop"), { recursive: true });
  writeFileSync(join(home, ".config/sysop/config.toml"), config);
  const scenarios = Object.entries(script).map(([trigger, replies]) => {
    return { name: trigger, trigger, steps: replies.map((response) => ({ response })) };
  });
  const file = join(folder, "scenarios.json");
  writeFileSync(file, JSON.stringify({ scenarios, default_response: say("No scenario fits.") }));
  const bare = { PATH: process.env.PATH ?? "", HOME: home, LANG: "C.UTF-8" };
  const model = run(SYSOP, ["mock-llm", "--port", "0", "--scenarios", file], bare, work);
  ends.push(model.end);
  const [, port] = await model.says(/http:\/\/127\.0\.0\.1:(\d+)/);
  const environment = {
    ...bare,
    OLLAMA_HOST: "127.0.0.1:1",
    SYSOP_MODEL: "openai/gemini",
    SYSOP_PROVIDERS__OPENAI__BASE_URL: `http://127.0.0.1:${port}/v1`,
    OPENAI_API_KEY: "none",
    ...env,
  };
  const begin = async (at: string) => {
    const server = run(SYSOP, ["serve", "--port", at, ...args], environment, work);
    ends.push(server.end);
    const [, url, tokenFile] = await server.says(/(http:\/\/127\.0\.0\.1:\d+)\/, token file (.+)\n/);
    if (!url || !tokenFile) throw new Error(server.said());
    const token = readFileSync(tokenFile, "utf8").trim();
    return { server, url, token };
  };
  const token = (...args: string[]) =>
    execFileSync(SYSOP, ["token", ...args], {
      env: bare,
      cwd: work,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
  let begun = await begin("0");
  const request = (method: string, path: string, body?: unknown) =>
    fetch(`${begun.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${begun.token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  return {
    get url() {
      return begun.url;
    },
    get token() {
      return begun.token;
    },
    work,
    home,
    said: () => begun.server.said(),
    request,
    session: async (wish = {}) => {
      const made = await request("POST", "/api/agent/sessions", wish);
      expect(made.status).toBe(201);
      return ((await made.json()) as { sessionId: string }).sessionId;
    },
    createToken: (name) => token("create", "--name", name, "--scope", "operate,decide").trim(),
    revokeToken: (name) => {
      const row = token("list")
        .split("\n")
        .find((line) => line.includes(name));
      token("revoke", row?.split(" ")[0] ?? "");
    },
    restart: async () => {
      await begun.server.end();
      begun = await begin(new URL(begun.url).port);
    },
  };
}

/** A page as a user sees it. */
export class Person {
  constructor(readonly page: Page) {}

  get prompt(): Locator {
    return this.page.getByRole("textbox", { name: "Describe a task" });
  }

  get conversation(): Locator {
    return this.page.getByRole("region", { name: "Conversation" });
  }

  get review(): Locator {
    return this.page.getByRole("group", {
      name: /^((Approve this command|Apply this change|Press these keys|Undo .*) on|Save this note about) /,
    });
  }

  get steps(): Locator {
    return this.page.getByRole("article", { name: /^Call/ });
  }

  /** The tabs of the page, each a session. */
  get tabs(): Locator {
    return this.page.getByRole("tab");
  }

  button(name: string | RegExp): Locator {
    return this.page.getByRole("button", { name });
  }

  async says(text: string): Promise<void> {
    await this.prompt.fill(text);
    await this.prompt.press("Enter");
  }

  /** Waits until the live terminal shows the text. */
  async sees(text: string | RegExp): Promise<void> {
    await expect(this.terminal).toContainText(text);
  }

  /** The rows of the live terminal as text. */
  get terminal(): Locator {
    return this.page.locator(".terminal-slot:not(.away) .xterm-rows");
  }

  async types(text: string): Promise<void> {
    await this.page.locator(".terminal-slot:not(.away) .xterm-helper-textarea").focus();
    await this.page.keyboard.type(text);
  }
}

/** Logs a browser in, and opens the page, optionally at a session. */
export async function visit(
  page: Page,
  server: TestServer,
  session?: string,
  terminal?: "unused",
): Promise<Person> {
  await enter(page.context(), server, terminal);
  await page.goto(`${server.url}/${session ? `#/s/${session}` : ""}`);
  // The outline that the server sends ignores keys.
  await expect(page.locator(".app:not(.shell)")).toBeVisible();
  if (session) await expect(new Person(page).prompt).toBeVisible();
  return new Person(page);
}

/** Gives a browser its cookie, by visiting the printed address. Its user has opened the terminal, unless it is unused. */
export async function enter(
  context: BrowserContext,
  server: TestServer,
  terminal: "open" | "unused" = "open",
): Promise<void> {
  const port = new URL(server.url).port;
  if ((await context.cookies(server.url)).some(({ name }) => name === `sysop-${port}`)) return;
  if (terminal === "open") {
    await context.addInitScript(() => {
      const key = "sysop.terminal.hidden";
      if (localStorage.getItem(key) === null) localStorage.setItem(key, "no");
    });
  }
  const page = await context.newPage();
  await page.goto(`${server.url}/?token=${server.token}`);
  expect(page.url()).toBe(`${server.url}/`);
  await page.close();
}

export { expect };
