/** Desktop notifications. Permission is requested only on a click. */
import type { SessionId } from "../wire";

export type Permission = "granted" | "denied" | "default" | "missing";

export function permission(): Permission {
  return typeof Notification === "undefined" ? "missing" : Notification.permission;
}

/** Requests permission; must be called from a click. */
export async function askPermission(): Promise<Permission> {
  return typeof Notification === "undefined" ? "missing" : await Notification.requestPermission();
}

/** Shows a notification if the tab is hidden; several tabs of a session show only one. */
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
    // Some browsers allow notifications only in service workers.
  }
}
