// Before the first paint: apply the theme that was chosen last, or else the system's theme.
{
  let theme;
  try {
    theme = localStorage.getItem("sysop.theme");
  } catch {
    // Without storage, the page still works.
  }
  if (theme !== "light" && theme !== "dark") {
    theme = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  }
  document.documentElement.dataset.theme = theme;
}
