import { renderToString } from "preact-render-to-string";
import { expect, test } from "vitest";
import type { Me } from "../protocol/api";
import { MeContext } from "./me";
import { NewSessionDialog } from "./NewSessionDialog";
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
