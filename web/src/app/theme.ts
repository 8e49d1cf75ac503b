/** Dark, light, or as the system has it. */
import { useEffect, useState } from "react";
import * as keep from "../state/keep";
import { useMedia } from "./use";

export type Theme = "dark" | "light";

const NEXT: Record<keep.ThemeChoice, keep.ThemeChoice> = { dark: "light", light: "system", system: "dark" };

export function useTheme(): { theme: Theme; choice: keep.ThemeChoice; next(): void } {
  const [choice, choose] = useState(keep.theme);
  const systemIsLight = useMedia("(prefers-color-scheme: light)");
  const theme = choice === "system" ? (systemIsLight ? "light" : "dark") : choice;
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  const next = () => {
    keep.keepTheme(NEXT[choice]);
    choose(NEXT[choice]);
  };
  return { theme, choice, next };
}
