// Before anything is painted: the looks that were chosen last. Dark is the default.
{
  let theme = "dark";
  try {
    theme = localStorage.getItem("sysop.theme") || "dark";
  } catch {
    // A browser that keeps nothing still shows the page.
  }
  if (theme === "system") theme = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
}
