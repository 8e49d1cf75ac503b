// Before anything is painted: the looks that were chosen last, or else those of the system.
{
  let theme;
  try {
    theme = localStorage.getItem("sysop.theme");
  } catch {
    // A browser that keeps nothing still shows the page.
  }
  if (theme !== "light" && theme !== "dark") {
    theme = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  }
  document.documentElement.dataset.theme = theme;
}
