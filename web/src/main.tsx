/** Entry point of the page. */
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { sessions } from "./state/sessions";
import "./style/index.css";

const root = document.getElementById("root");
if (root) {
  sessions.start();
  createRoot(root).render(<App sessions={sessions} />);
}
