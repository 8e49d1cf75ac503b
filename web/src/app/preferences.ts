/** Settings of this browser. */
import { useState } from "react";
import * as storage from "../state/storage";

export interface Preferences {
  theme: storage.ThemeChoice;
  /** Font size of the terminal, in pixels. */
  fontSize: number;
  /** True if the user hid the terminal; undefined until the user hides or shows it. */
  terminalHidden: boolean | undefined;
}

export interface PreferenceActions {
  setTheme(theme: storage.ThemeChoice): void;
  setFontSize(pixels: number): void;
  setTerminalHidden(hidden: boolean): void;
}

export function usePreferences(): [Preferences, PreferenceActions] {
  const [preferences, change] = useState<Preferences>(() => ({
    theme: storage.theme(),
    fontSize: storage.terminalFontSize(),
    terminalHidden: storage.terminalHidden(),
  }));
  const [actions] = useState<PreferenceActions>(() => ({
    setTheme: (theme) => {
      storage.saveTheme(theme);
      change((before) => ({ ...before, theme }));
    },
    setFontSize: (fontSize) => {
      storage.saveTerminalFontSize(fontSize);
      change((before) => ({ ...before, fontSize }));
    },
    setTerminalHidden: (terminalHidden) => {
      storage.saveTerminalHidden(terminalHidden);
      change((before) => ({ ...before, terminalHidden }));
    },
  }));
  return [preferences, actions];
}
