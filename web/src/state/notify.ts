/** Notifications for a person who looks elsewhere. Permission is asked for on a click only. */
import type { SessionId } from "../wire";

export type Permission = "granted" | "denied" | "default" | "missing";

export function permission(): Permission {
  return typeof Notification === "undefined" ? "missing" : Notification.permission;
}

/** Asks the browser; call it in a click. */
export async function askPermission(): Promise<Permission> {
  return typeof Notification === "undefined" ? "missing" : await Notification.requestPermission();
}

/** Shows it where the tab is hidden; several tabs on one session show one. */
export function notify(id: SessionId, title: string, body: string): void {
  if (permission() !== "granted" || document.visibilityState === "visible") return;
  try {
    const shown = new Notification(title, { body, tag: `sysop-${id}`, icon: "/favicon.svg" });
    shown.addEventListener("click", () => {
      window.focus();
      location.hash = `#/s/${encodeURIComponent(id)}`;
      shown.close();
    });
  } catch {
    // Some browsers allow them to service workers only.
  }
}
