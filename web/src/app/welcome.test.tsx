import { renderToString } from "preact-render-to-string";
import { expect, test } from "vitest";
import type { HostRow, Me } from "../protocol/api";
import { RequestError } from "../protocol/request-error";
import { MeContext } from "./me";
import { correctedHosts, NewSessionDialog, offeredHosts, Problem } from "./NewSessionDialog";
import { Welcome } from "./Welcome";

const nothing = () => undefined;
const me: Me = {
  name: "web",
  operate: true,
  decide: true,
  server: { machine: "lab", host: "root@web1", root: "/srv/app", model: "openai/qwen", approve: "auto" },
};

function welcome(user: Me | undefined): string {
  const page = (
    <MeContext value={user}>
      <Welcome waiting={[]} enter={nothing} begin={nothing} connect={nothing} list={undefined} />
    </MeContext>
  );
  return renderToString(page).replace(/<[^>]*>/g, "");
}

test("the start screen tells what a session with the server's defaults does", () => {
  expect(welcome(me)).toContain(
    "Describe a task. The agent works on web1 as root in /srv/app. The model is qwen. " +
      "You approve, edit or reject each step that is dangerous or cannot be checked.",
  );
  const { server: _, ...older } = me;
  for (const user of [undefined, older]) {
    const text = welcome(user);
    expect(text).toContain("Describe a task. The model works on it step by step.");
    expect(text).not.toContain("approve");
  }
});

test("the dialog for a new session names the server's defaults", () => {
  const dialog = renderToString(<NewSessionDialog server={me.server} made={nothing} close={nothing} />);
  for (const value of ["root@web1", "/srv/app", "auto"]) {
    expect(dialog).toContain(`Server default (${value})`);
  }
});

test("a session that cannot be created says why, and offers the host that was meant", () => {
  const shown = (why: string, code: string) => {
    const problem = new RequestError(
      "Cannot create the session",
      why,
      "",
      400,
      code,
      "POST /api/agent/sessions",
    );
    return renderToString(<Problem problem={problem} typed="wbe1" choose={nothing} />).replace(
      /<\/?(div|p|strong)\b[^>]*>/g,
      "",
    );
  };
  const meant = shown("unknown host wbe1; did you mean `web1`?", "bad_request");
  expect(meant).toBe(
    "Cannot create the session: unknown host wbe1; did you mean <code>web1</code>?" +
      '<button type="button" class="small">Use web1</button>',
  );
  const unclear = shown("unknown host a, unknown host b; did you mean `c`? did you mean `d`?", "bad_request");
  expect(unclear).not.toContain("button");
  expect(shown("the server returned 502 Bad Gateway", "")).toContain("POST /api/agent/sessions");
});

test.each([
  ["root@wbe3", "unknown host wbe3; did you mean `root@web3`?", "root@web3"],
  ["wbe3", "unknown host wbe3.lan; did you mean `web3`?", "web3"],
  ["web1, web2,Wbe3", "unknown host wbe3; did you mean `web3`?", "web1,web2,web3"],
  ["@db,root@wbe3", "unknown host wbe3; did you mean `root@web3`?", "@db,root@web3"],
  ["web1,@prd", 'no host has the tag "prd"; did you mean `@prod`?', "web1,@prod"],
  ["web1,web2", "unknown host wbe3; did you mean `web3`?", undefined],
  ["@db", "unknown host wbe3; did you mean `web3`?", undefined],
  ["wbe1,bd1", "unknown host wbe1, unknown host bd1; did you mean `db1`?", undefined],
  ["web1", 'unknown provider "ollma"; did you mean `ollama/qwen`?', undefined],
])("of the hosts %s, only the unknown one is replaced: %s", (typed, why, corrected) => {
  expect(correctedHosts(typed, why)).toBe(corrected);
});

test("the hosts that a text filters out are offered again after a failure", () => {
  const hosts = ["web1", "web2"].map((name) => ({ name, description: name, approve: "ask" }) as HostRow);
  const names = (typed: string, failed: boolean) =>
    offeredHosts(hosts, typed, failed).map(({ name }) => name);
  expect(names("eb2", true)).toEqual(["web2"]);
  expect(names("wbe1", false)).toEqual([]);
  expect(names("wbe1", true)).toEqual(["web1", "web2"]);
});
