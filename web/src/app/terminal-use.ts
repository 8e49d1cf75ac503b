/** Use of a session's terminal, until which its half of the page is hidden. */
import { useCallback, useRef, useState, useSyncExternalStore } from "react";
import type { SessionStore } from "../state/session-store";
import type { Transcript } from "../state/transcript";

/** True if the session's host is several, which have a table instead of a terminal. */
function hasSeveralHosts({ facts }: Transcript): boolean {
  return facts?.host.includes(",") ?? false;
}

/** Tools that use the session's terminal. */
const TERMINAL_TOOLS: ReadonlySet<string> = new Set(["run_command", "send_keys"]);

/** True if a session has used its terminal, or shows a table of its hosts there. */
export function usesTerminal(transcript: Transcript): boolean {
  if (hasSeveralHosts(transcript) || transcript.holder !== undefined) return true;
  return transcript.items.some((item) => item.kind === "step" && TERMINAL_TOOLS.has(item.tool));
}

const nothing = () => () => undefined;

/** Name of the left half: a session on several hosts has a table of them instead of a terminal. */
export function useLeftName(store: SessionStore | undefined): string {
  return useSyncExternalStore(store?.subscribe ?? nothing, () =>
    store && hasSeveralHosts(store.snapshot().transcript) ? "Hosts" : "Terminal",
  );
}

type Half = "left" | "right";

/** The half of the page that a narrow window shows, and its setter. Each session opens on the conversation. */
export function useHalf(session: string | undefined): [Half, (half: Half) => void] {
  /** Session whose left half is shown. */
  const [left, setLeft] = useState<string>();
  const set = useCallback((half: Half) => setLeft(half === "left" ? session : undefined), [session]);
  return [left !== undefined && left === session ? "left" : "right", set];
}

/** True as soon as the session has used its terminal: until then, the terminal is an empty half of the page. */
export function useTerminalUse(store: SessionStore | undefined): boolean {
  /** Sessions that have, so that their items are not read again. */
  const users = useRef(new Set<SessionStore>());
  return useSyncExternalStore(store?.subscribe ?? nothing, () => {
    if (!store) return false;
    if (!users.current.has(store) && usesTerminal(store.snapshot().transcript)) users.current.add(store);
    return users.current.has(store);
  });
}
