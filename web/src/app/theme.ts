/** Dark, light, or as the system has it. */
import { useEffect, useState } from "react";
import * as storage from "../state/storage";
import { useMedia } from "./hooks";

export type Theme = "dark" | "light";

const NEXT: Record<storage.ThemeChoice, storage.ThemeChoice> = {
  dark: "light",
  light: "system",
  system: "dark",
};

export function useTheme(): { theme: Theme; choice: storage.ThemeChoice; next(): void } {
  const [choice, choose] = useState(storage.theme);
  const systemIsLight = useMedia("(prefers-color-scheme: light)");
  const theme = choice === "system" ? (systemIsLight ? "light" : "dark") : choice;
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  const next = () => {
    storage.saveTheme(NEXT[choice]);
    choose(NEXT[choice]);
  };
  return { theme, choice, next };
}
