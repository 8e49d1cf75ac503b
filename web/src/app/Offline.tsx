/** Banner of a session without a WebSocket. */
import { useEffect } from "react";
import { SIGNED_OUT } from "../protocol/request-error";
import type { SessionStore } from "../state/session-store";
import { neutralizeLine } from "../text/neutralize";
import { useSessionPart } from "./hooks";

interface OfflineProps {
  store: SessionStore;
  /** Called when the session is no longer offline. */
  back(): void;
  closeTab(): void;
}

export function Offline({ store, back, closeTab }: OfflineProps) {
  const status = useSessionPart(store, (view) => view.status);
  const offline = status.state === "offline";
  useEffect(() => (offline ? back : undefined), [offline, back]);
  if (status.state === "open" && status.kind === "events") {
    return (
      <p className="banner slow" role="status">
        WebSocket blocked; using HTTP instead.
      </p>
    );
  }
  if (status.state !== "offline") return null;
  return (
    <div className="banner offline" role="alert">
      <span>
        <strong>{status.final ? "Closed" : "Offline"}:</strong> {neutralizeLine(status.why)}.
        {status.hint && ` ${status.hint}`}
        {!status.final && " Drafts are saved."}
      </span>
      {status.final && status.why === SIGNED_OUT && (
        <button type="button" className="primary" onClick={() => location.reload()}>
          Sign in
        </button>
      )}
      {status.final ? (
        <button type="button" onClick={closeTab}>
          Close tab
        </button>
      ) : (
        <button type="button" onClick={store.link.again}>
          Retry now
        </button>
      )}
    </div>
  );
}
