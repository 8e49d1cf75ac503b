// Runs before the first paint. A file of its own, as the content security policy allows no script in the page.
{
  const read = (storage, key) => {
    try {
      return window[storage].getItem(key);
    } catch {
      return null; // without storage, the page still works
    }
  };
  const { dataset } = document.documentElement;
  const failed = ({ target }) => {
    if (target instanceof HTMLScriptElement) dataset.shell = "failed";
  };
  addEventListener("error", failed, true); // such an event does not bubble
  const theme = read("localStorage", "sysop.theme");
  const light = matchMedia("(prefers-color-scheme: light)").matches;
  dataset.theme = theme === "light" || theme === "dark" ? theme : light ? "light" : "dark";
  // The outline that is shown until the script has drawn the page.
  const session = location.hash.startsWith("#/s/") || read("sessionStorage", "sysop.tabs");
  dataset.shell = session ? "session" : "welcome";
  // Unless the user has opened the terminal, a session must use it first.
  if (read("localStorage", "sysop.terminal.hidden") !== "no") dataset.terminal = "hidden";
  // A session probably has messages, so their code is loaded together with the page's.
  const files = session ? document.currentScript.dataset.parts : undefined;
  for (const href of files?.split(" ") ?? []) {
    const link = document.createElement("link");
    Object.assign(link, { rel: "modulepreload", crossOrigin: "", href });
    document.head.append(link);
  }
}
