/** Grants of a session, each with a button that revokes it. */
import { useContext } from "react";
import type { SessionStore } from "../state/session-store";
import { grantPhrase, revokedGrant } from "../text/grants";
import { neutralizeLine } from "../text/neutralize";
import { Dialog } from "./Dialog";
import { useSessionView } from "./hooks";
import "./grants.css";
import { MeContext } from "./me";

export function GrantsDialog({ store, close }: { store: SessionStore; close(): void }) {
  const { transcript, status } = useSessionView(store);
  const me = useContext(MeContext);
  const { grants } = transcript;
  const mayRevoke = status.state === "open" && (me === undefined || me.operate || me.decide);
  return (
    <Dialog title="Allowed for this session" close={close}>
      {grants.length === 0 && (
        <p>Nothing is allowed for this session beyond the approval mode and your rules.</p>
      )}
      {grants.length > 0 && (
        <ul className="grants">
          {grants.map((grant) => {
            const { before, code, after } = grantPhrase(grant);
            const shown = neutralizeLine(code);
            const line = `${before}${shown}${after}`;
            return (
              <li key={line}>
                <span>
                  {before}
                  {shown && <code>{shown}</code>}
                  {after}
                </span>
                <button
                  type="button"
                  disabled={!mayRevoke}
                  aria-label={`Revoke ${line}`}
                  onClick={() => store.configure({ revoke: [revokedGrant(grant)] })}
                >
                  Revoke
                </button>
              </li>
            );
          })}
        </ul>
      )}
      {status.state !== "open" && <p className="meta">Not connected; nothing can be revoked now.</p>}
    </Dialog>
  );
}
