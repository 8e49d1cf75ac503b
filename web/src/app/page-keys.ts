/** Global keyboard shortcuts. In the terminal, which receives the other keys, only two of them apply. */
import { useLayoutEffect } from "react";
import { onPageRequest } from "../state/page-requests";
import { pageKeyInTerminal } from "../terminal-api";
import { useLatest } from "./hooks";

/** Overlays of the page; at most one is open. */
export type OpenDialog =
  | "connect"
  | "palette"
  | "help"
  | "settings"
  | "link"
  | "share"
  | "grants"
  | undefined;

interface Actions {
  open(dialog: OpenDialog): void;
  list(): void;
  toggleTerminal(): void;
  /** Pauses the turn, or resumes it. */
  pause(): void;
}

/** Maps keys with modifiers to actions. */
function actionOf(event: KeyboardEvent, actions: Actions): (() => void) | undefined {
  const { open, list, pause, toggleTerminal } = actions;
  const everywhere = pageKeyInTerminal(event);
  if (everywhere) return everywhere === "palette" ? () => open("palette") : toggleTerminal;
  const { key, ctrlKey, metaKey, altKey, shiftKey, target } = event;
  const command = (ctrlKey || metaKey) && !altKey && !shiftKey;
  if (command && key.toLowerCase() === "k") return () => open("palette");
  if (command && key === ",") return () => open("settings");
  if (altKey && !ctrlKey && !metaKey) {
    // With Alt, some keyboards give other letters, so the position of the key counts.
    return { KeyN: () => open("connect"), KeyS: list, KeyP: pause }[event.code];
  }
  const writes =
    target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
  if (key === "?" && !ctrlKey && !metaKey && !writes) return () => open("help");
  return undefined;
}

/** Carries out what keys, and commands that are typed into a prompt, ask of the page. */
export function usePageKeys(actions: Actions): void {
  const latest = useLatest(actions);
  useLayoutEffect(
    () =>
      onPageRequest((request) => {
        const { open, list, toggleTerminal } = latest.current;
        if (request === "list") list();
        else if (request === "terminal") toggleTerminal();
        else open(request);
      }),
    [latest],
  );
  // Not `useEffect`: between the first paint and a passive effect, a key would be lost.
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { target } = event;
      if (event.defaultPrevented || event.isComposing) return;
      if (target instanceof Element && target.closest("dialog")) return;
      const typesInTerminal = target instanceof Element && target.closest(".terminal-fit");
      if (typesInTerminal && !pageKeyInTerminal(event)) return;
      const act = actionOf(event, latest.current);
      if (!act) return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [latest]);
}
