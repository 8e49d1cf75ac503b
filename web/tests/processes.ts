/** Programs that a test runs: they are waited for, and none outlives its test. */
import { type ChildProcess, spawn } from "node:child_process";

/** Timeout for expected program output. */
const DEADLINE_MS = 30_000;

export interface TestProcess {
  child: ChildProcess;
  /** All output so far. */
  said(): string;
  /** Waits until the output matches. */
  says(form: RegExp): Promise<RegExpExecArray>;
  end(): Promise<void>;
}

export function run(program: string, args: string[], env: NodeJS.ProcessEnv, cwd: string): TestProcess {
  const child = spawn(program, args, { env, cwd, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  let over = false;
  let changed = () => {};
  const hear = (chunk: Buffer) => {
    said += chunk.toString();
    changed();
  };
  child.stdout?.on("data", hear);
  child.stderr?.on("data", hear);
  const ended = new Promise<void>((resolve) => {
    const end = () => {
      over = true;
      changed();
      resolve();
    };
    child.once("exit", end);
    child.once("error", (error) => {
      said += `\n${error}`;
      end();
    });
  });
  return {
    child,
    said: () => said,
    says: (form) =>
      new Promise((resolve, reject) => {
        const fail = (why: string) => reject(new Error(`${program} ${args.join(" ")} ${why}:\n${said}`));
        const late = setTimeout(() => fail(`never said ${form}`), DEADLINE_MS);
        changed = () => {
          const found = form.exec(said);
          if (!found && !over) return;
          clearTimeout(late);
          changed = () => {};
          if (found) resolve(found);
          else fail("ended");
        };
        changed();
      }),
    end: async () => {
      if (!over) child.kill("SIGKILL");
      await ended;
    },
  };
}
