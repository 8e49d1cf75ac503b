/** Settings of this browser, and links for sharing. */
import { useState } from "react";
import { type Me, request } from "../protocol/api";
import { RequestError } from "../protocol/request-error";
import { askPermission, permission } from "../state/notify";
import { FONT_SIZES, type ThemeChoice } from "../state/storage";
import { neutralizeLine } from "../text/neutralize";
import { Dialog } from "./Dialog";
import { GUIDE_URL } from "./HelpDialog";
import { Icon } from "./icons";
import type { PreferenceActions, Preferences } from "./preferences";

const THEMES: readonly [ThemeChoice, string][] = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];

interface Props {
  preferences: Preferences;
  actions: PreferenceActions;
  me: Me | undefined;
  link(access: "same" | "read"): void;
  help(): void;
  close(): void;
}

export function SettingsDialog({ preferences, actions, me, link, help, close }: Props) {
  return (
    <Dialog title="Settings" close={close}>
      <div>
        <div className="setting">
          <div>Theme</div>
          <div className="choice" role="group" aria-label="Theme">
            {THEMES.map(([choice, name]) => (
              <button
                key={choice}
                type="button"
                aria-pressed={preferences.theme === choice}
                onClick={() => actions.setTheme(choice)}
              >
                <Icon name={choice} /> {name}
              </button>
            ))}
          </div>
        </div>
        <div className="setting">
          <label htmlFor="terminal-font">Terminal font size</label>
          <select
            id="terminal-font"
            value={preferences.fontSize}
            onChange={(event) => actions.setFontSize(Number(event.target.value))}
          >
            {FONT_SIZES.map((size) => (
              <option key={size} value={size}>
                {size} px
              </option>
            ))}
          </select>
        </div>
        <Notifications />
        {me?.operate && (
          <>
            <div className="setting">
              <div>
                Link a device
                <p>Signs in another browser, such as on your phone, with your permissions.</p>
              </div>
              <button type="button" onClick={() => link("same")}>
                Show code
              </button>
            </div>
            <div className="setting">
              <div>
                Share read-only
                <p>A one-time link for watching all sessions, without permission to change anything.</p>
              </div>
              <button type="button" onClick={() => link("read")}>
                Create link
              </button>
            </div>
          </>
        )}
        {me && <Login me={me} />}
        <div className="setting">
          <div>
            Help
            <p>Tutorial, recipes, security and troubleshooting.</p>
          </div>
          <div className="pages">
            <a href={GUIDE_URL} target="_blank" rel="noreferrer">
              User guide
            </a>
            <button type="button" className="shortcuts" onClick={help}>
              Keyboard shortcuts <kbd>?</kbd>
            </button>
          </div>
        </div>
      </div>
    </Dialog>
  );
}

function Login({ me }: { me: Me }) {
  const [problem, setProblem] = useState<RequestError>();
  const signOut = async () => {
    try {
      await request("Cannot sign out", "POST", "/api/logout");
      location.reload();
    } catch (error) {
      if (error instanceof RequestError) setProblem(error);
    }
  };
  return (
    <div className="setting">
      <div>
        Signed in with the token <b>{neutralizeLine(me.name)}</b>
        <p>{permissions(me)}</p>
        {problem && (
          <p className="warning" role="alert">
            {problem.what}: {neutralizeLine(problem.why)}
          </p>
        )}
      </div>
      <button type="button" title="Signs out this browser only" onClick={() => void signOut()}>
        Sign out
      </button>
    </div>
  );
}

function permissions({ operate, decide }: Me): string {
  if (operate && decide) return "Can run sessions and approve commands.";
  if (operate) return "Can run sessions, and approve commands in those it started.";
  return decide ? "Can watch and approve commands." : "Can watch only.";
}

function Notifications() {
  const [allowed, setAllowed] = useState(permission);
  if (allowed === "missing") return null;
  const words = {
    granted: "On. You are notified when a turn ends or needs approval while this tab is hidden.",
    denied: "Blocked in the browser's settings.",
    default: "Notify me when a turn ends or needs approval while this tab is hidden.",
  }[allowed];
  return (
    <div className="setting">
      <div>
        Notifications
        <p>{words}</p>
      </div>
      {allowed === "default" && (
        <button type="button" onClick={() => void askPermission().then(setAllowed)}>
          Turn on
        </button>
      )}
    </div>
  );
}
