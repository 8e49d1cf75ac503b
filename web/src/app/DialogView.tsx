/** The dialogs of the page, loaded apart; see `Dialogs.tsx`. */
import { pageActions } from "./actions";
import { CommandPalette } from "./CommandPalette";
import type { DialogProps } from "./Dialogs";
import { GrantsDialog } from "./GrantsDialog";
import { HelpDialog } from "./HelpDialog";
import { LinkDialog } from "./LinkDialog";
import { NewSessionDialog } from "./NewSessionDialog";
import { SettingsDialog } from "./SettingsDialog";

export function DialogView({ dialog, close, open, enter, ...page }: DialogProps) {
  const { tabs, me, set, preferences } = page;
  switch (dialog) {
    case "connect":
      return <NewSessionDialog server={me?.server} made={enter} close={close} />;
    case "palette":
      return <CommandPalette actions={pageActions({ ...page, open })} close={close} />;
    case "grants":
      return tabs.active ? <GrantsDialog store={tabs.active} close={close} /> : null;
    case "help":
      return <HelpDialog close={close} />;
    case "settings":
      return (
        <SettingsDialog
          preferences={preferences}
          actions={set}
          me={me}
          link={(access) => open(access === "same" ? "link" : "share")}
          help={() => open("help")}
          close={close}
        />
      );
    case "link":
    case "share":
      return (
        <LinkDialog
          access={dialog === "link" ? "same" : "read"}
          hash={tabs.active ? `#/s/${encodeURIComponent(tabs.active.id)}` : ""}
          close={close}
        />
      );
  }
}
