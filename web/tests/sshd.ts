/** A real sshd on a free port, with keys, config and home of its own. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { run, type TestProcess } from "./processes";

export interface Sshd {
  /** Config with which `ssh` finds it by name. */
  config: string;
  /** Home directory on that machine. */
  home: string;
  end(): Promise<void>;
}

/** Starts a server that `ssh` knows by a name; `passphrase` is the passphrase of the key for it. */
export async function startSshd(folder: string, passphrase = "", name = "far"): Promise<Sshd> {
  const at = (name: string) => join(folder, name);
  mkdirSync(at("home"), { recursive: true });
  writeFileSync(at("home/.bashrc"), "PS1='far:\\w$ '; unset HISTFILE\n");
  for (const [key, secret] of [
    ["host", ""],
    ["user", passphrase],
  ] as const) {
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", secret, "-f", at(key)]);
  }
  writeFileSync(at("authorized"), readFileSync(at("user.pub")));
  if (process.getuid?.() === 0) mkdirSync("/run/sshd", { recursive: true });
  const program = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"].find((path) => existsSync(path));
  if (!program) throw new Error("sshd is not installed; `cargo xtask setup` installs it");
  // The free port may be taken before sshd binds it.
  for (let tries = 0; ; tries += 1) {
    const port = await freePort();
    writeConfigs(at, port, name);
    const server: TestProcess = run(program, ["-D", "-e", "-f", at("sshd_config")], process.env, folder);
    try {
      await server.says(/Server listening on/);
      return { config: at("ssh_config"), home: at("home"), end: server.end };
    } catch (error) {
      await server.end();
      if (tries === 5 || !server.said().includes("in use")) throw error;
    }
  }
}

function writeConfigs(at: (file: string) => string, port: number, name: string): void {
  const server = [
    `ListenAddress 127.0.0.1:${port}`,
    `HostKey ${at("host")}`,
    `AuthorizedKeysFile ${at("authorized")}`,
    `SetEnv HOME=${at("home")}`,
    "PidFile none",
    "UsePAM no",
    "StrictModes no",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "PermitRootLogin yes",
    "UseDNS no",
  ];
  writeFileSync(at("sshd_config"), `${server.join("\n")}\n`);
  writeFileSync(at("known_hosts"), `[127.0.0.1]:${port} ${readFileSync(at("host.pub"), "utf8")}`);
  const client = [
    `Host ${name}`,
    "  HostName 127.0.0.1",
    `  Port ${port}`,
    "Host *",
    `  IdentityFile ${at("user")}`,
    "  IdentitiesOnly yes",
    "  IdentityAgent none",
    `  UserKnownHostsFile ${at("known_hosts")}`,
    "  GlobalKnownHostsFile /dev/null",
  ];
  writeFileSync(at("ssh_config"), `${client.join("\n")}\n`, { mode: 0o600 });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        typeof address === "object" && address ? resolve(address.port) : reject(new Error("no port")),
      );
    });
  });
}
