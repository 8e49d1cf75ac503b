/** Dialog for a new session: host, approval mode, root and model. */
import { type FormEvent, useEffect, useLayoutEffect, useRef, useState } from "react";
import {
  type CreateSessionRequest,
  createSession,
  type HostRow,
  listHosts,
  listModels,
  type ServerInfo,
} from "../protocol/api";
import { RequestError } from "../protocol/request-error";
import { CodeSpans } from "../text/CodeSpans";
import { neutralizeLine, oneLine } from "../text/neutralize";

interface Props {
  server: ServerInfo | undefined;
  made(id: string): void;
  close(): void;
}

/** Name of the server's machine as a host. */
const LOCAL = "local";

/** Returns the hosts whose name contains the text; after a failure, all of them if none does. */
export function offeredHosts(hosts: readonly HostRow[], typed: string, failed: boolean): readonly HostRow[] {
  const fitting = hosts.filter(({ name }) => name.includes(typed));
  return fitting.length === 0 && failed ? hosts : fitting;
}

/**
 * Returns the typed hosts with the one that the server does not know replaced by the one that it suggests; undefined
 * unless it names one of each. See `known_host.rs`, and `no_tag` in sysop.
 */
export function correctedHosts(typed: string, why: string): string | undefined {
  const all = (form: RegExp) => [...why.matchAll(form)].map(([, name = ""]) => name);
  const unknown = [
    ...all(/unknown host ([^;, ]+)/g),
    ...all(/no host has the tag "([^"]+)"/g).map((tag) => `@${tag}`),
  ];
  const [meant, ...others] = all(/did you mean `([^`]+)`\?/g);
  if (meant === undefined || unknown.length !== 1 || others.length > 0) return undefined;
  const hosts = typed.split(",").map((host) => host.trim());
  // The server may name a single host as ssh calls it.
  if (hosts.length === 1 && !typed.trim().startsWith("@")) return meant;
  const isUnknown = (host: string) => withoutUser(host).toLowerCase() === unknown[0]?.toLowerCase();
  if (!hosts.some(isUnknown)) return undefined;
  return hosts.map((host) => (isUnknown(host) ? meant : host)).join(",");
}

function withoutUser(host: string): string {
  return host.startsWith("@") ? host : host.slice(host.lastIndexOf("@") + 1);
}

interface ProblemProps {
  problem: RequestError;
  /** Text of the field for the host. */
  typed: string;
  choose(hosts: string): void;
}

/** Says why there is no session. Where the request went helps only if the server has not said why. */
export function Problem({ problem: { what, why, hint, code, where }, typed, choose }: ProblemProps) {
  const corrected = correctedHosts(typed, why);
  return (
    <div className="trouble" role="alert">
      <div>
        <strong>{what}:</strong> <CodeSpans text={oneLine(why)} />
        {hint && <p>{hint}</p>}
        {code === "" && <p className="meta">{where}</p>}
        {corrected !== undefined && (
          <button type="button" className="small" onClick={() => choose(corrected)}>
            Use {neutralizeLine(corrected)}
          </button>
        )}
      </div>
    </div>
  );
}

/** Text for a field without a choice, with the server's value if it is known. */
function withDefault(value: string | undefined): string {
  return value ? `Server default (${neutralizeLine(value)})` : "Server default";
}

export function NewSessionDialog({ server, made, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [hosts, setHosts] = useState<readonly HostRow[]>([]);
  const [models, setModels] = useState<readonly string[]>([]);
  const [host, setHost] = useState("");
  const [problem, setProblem] = useState<RequestError>();
  const [busy, setBusy] = useState(false);

  useLayoutEffect(() => {
    const { current } = dialog;
    if (current && !current.open) current.showModal();
  }, []);
  useEffect(() => {
    let here = true;
    listHosts().then(
      (known) => here && setHosts(known),
      (error: unknown) => here && error instanceof RequestError && setProblem(error),
    );
    listModels().then(
      (known) => here && setModels(known),
      () => undefined,
    );
    return () => {
      here = false;
    };
  }, []);

  // Another host may have its own.
  const ofDefaultHost = host.trim() === "" ? server : undefined;
  const known = hosts.find(({ name }) => name === host);
  const shown = known ? hosts : offeredHosts(hosts, host, problem !== undefined);
  const choose = (name: string) => {
    setHost(name);
    setProblem(undefined);
  };
  const send = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? "").trim() || undefined;
    const wish: CreateSessionRequest = {
      host: text("host"),
      model: text("model"),
      approve: text("approve") as CreateSessionRequest["approve"],
      root: text("root"),
    };
    setBusy(true);
    setProblem(undefined);
    try {
      made(await createSession(wish));
    } catch (error) {
      setBusy(false);
      setProblem(error instanceof RequestError ? error : undefined);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="connect-title" onClose={close}>
      <form className="inner" onSubmit={(event) => void send(event)}>
        <h2 id="connect-title">New session</h2>
        <label className="named">
          Host
          <input
            name="host"
            className="field"
            value={host}
            placeholder={withDefault(server?.host === LOCAL ? server.machine : server?.host)}
            aria-describedby="host-forms"
            autoComplete="off"
            spellCheck="false"
            onChange={(event) => setHost(event.target.value)}
          />
        </label>
        <p className="meta" id="host-forms">
          A host, user@host or SSH alias; several: <code>web1,web2</code> or <code>@tag</code>
        </p>
        {shown.length > 0 && (
          <ul className="hosts" aria-label="Known hosts">
            {shown.map(({ name, description }) => (
              <li key={name}>
                <button type="button" aria-pressed={host === name} onClick={() => choose(name)}>
                  <b>{neutralizeLine(name)}</b>
                  {description !== name && (
                    <span className="meta">
                      {neutralizeLine(name === LOCAL ? (server?.machine ?? "the server") : description)}
                    </span>
                  )}
                </button>
              </li>
            ))}
          </ul>
        )}
        <div className="pair">
          <label className="named">
            Model
            <select name="model" className="field" defaultValue="">
              <option value="">{withDefault(models[0])}</option>
              {models.map((name) => (
                <option key={name} value={name}>
                  {neutralizeLine(name)}
                </option>
              ))}
            </select>
          </label>
          <label className="named">
            Approval mode
            <select name="approve" className="field" defaultValue="">
              <option value="">{withDefault((known ?? ofDefaultHost)?.approve)}</option>
              <option value="each">Ask before every command (each)</option>
              <option value="ask">Ask before changes (ask)</option>
              <option value="auto">Ask before dangerous or unknown commands (auto)</option>
              <option value="never">Read-only commands only (never)</option>
            </select>
          </label>
        </div>
        <label className="named">
          Root directory (commands start here; file tools stay inside)
          <input
            name="root"
            className="field"
            placeholder={withDefault(ofDefaultHost?.root)}
            autoComplete="off"
            spellCheck="false"
          />
        </label>
        <p className="meta">
          You may be asked for a password or to confirm a host key. Your answer goes only to ssh.
        </p>
        {problem && <Problem problem={problem} typed={host} choose={choose} />}
        <footer>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy}>
            {busy ? "Starting…" : "Start session"}
          </button>
        </footer>
      </form>
    </dialog>
  );
}
