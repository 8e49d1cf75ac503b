/** Dark, light, or as the system has it. */
import { useEffect } from "react";
import type * as storage from "../state/storage";
import { useMedia } from "./hooks";

export type Theme = "dark" | "light";

/** The color of the browser's own bar on a phone; `--panel` of each theme. */
const BAR: Record<Theme, string> = { dark: "#14181f", light: "#ffffff" };

/** Applies a choice and tells which theme it comes to now. */
export function useTheme(choice: storage.ThemeChoice): Theme {
  const systemIsLight = useMedia("(prefers-color-scheme: light)");
  const theme = choice === "system" ? (systemIsLight ? "light" : "dark") : choice;
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    document.querySelector('meta[name="theme-color"]')?.setAttribute("content", BAR[theme]);
  }, [theme]);
  return theme;
}
