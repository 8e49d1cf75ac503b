/** Entry point of the page. */
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { lazyDialogs } from "./app/Dialogs";
import { lazyParts } from "./conversation/Conversation";
import { sessionList } from "./state/session-list";
import { sessions } from "./state/sessions";
import "./style/index.css";

/** Time from the start until the code that the first view does not need is loaded. */
const FIRST_VIEW_MS = 2_000;

const root = document.getElementById("root");
if (root) {
  sessions.start();
  createRoot(root).render(<App sessions={sessions} sessionList={sessionList} />);
  setTimeout(() => {
    lazyParts.preload();
    lazyDialogs.preload();
  }, FIRST_VIEW_MS);
}
