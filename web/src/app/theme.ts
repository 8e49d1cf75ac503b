/** Theme: dark, light, or the system's. */
import { useEffect } from "react";
import type * as storage from "../state/storage";
import { useMedia } from "./hooks";

export type Theme = "dark" | "light";

/** Color of the browser's toolbar on phones; `--panel` of each theme. */
const BAR: Record<Theme, string> = { dark: "#14181f", light: "#ffffff" };

/** Applies the choice and returns the resulting theme. */
export function useTheme(choice: storage.ThemeChoice): Theme {
  const systemIsLight = useMedia("(prefers-color-scheme: light)");
  const theme = choice === "system" ? (systemIsLight ? "light" : "dark") : choice;
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    document.querySelector('meta[name="theme-color"]')?.setAttribute("content", BAR[theme]);
  }, [theme]);
  return theme;
}
