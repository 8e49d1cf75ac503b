// The guide's behavior: marks the current page in the contents, copies code, searches. Works without storage, and loads
// nothing but `search.json` beside it.
"use strict";

// The theme that was chosen on the page of this server; otherwise the system's.
try {
  const theme = localStorage.getItem("sysop.theme");
  if (theme === "light" || theme === "dark") document.documentElement.style.colorScheme = theme;
} catch {
  // Without storage, the system's theme stays.
}

const RESULTS_MAX = 12;
const CONTEXT_CHARS = 60;
// Points of a page, and of a section, that is named by the words.
const PAGE_POINTS = 1000;
const SECTION_POINTS = 100;
// Points of a heading, and of a text, that has the words side by side.
const HEADING_PHRASE_POINTS = 50;
const TEXT_PHRASE_POINTS = 25;
// Weight of the pages that the index marks as reference.
const REFERENCE_WEIGHT = 0.25;

const contents = document.getElementById("contents");
const wide = matchMedia("(min-width: 60.01rem)");
const arrange = () => { contents.open = wide.matches; };
wide.addEventListener("change", arrange);
arrange();
const here = location.pathname.split("/").pop() || "index.html";
const title = document.querySelector("h1")?.textContent;
for (const link of contents.querySelectorAll("a")) {
  const target = link.getAttribute("href");
  if (target === here || (here === "index.html" && link.textContent.trim() === title)) {
    link.setAttribute("aria-current", "page");
    link.scrollIntoView({ block: "nearest" });
  }
}

for (const block of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code")?.textContent ?? "");
    button.textContent = "Copied";
  });
  // The clipboard is there over HTTPS and on this machine only.
  if (navigator.clipboard) block.append(button);
}

const box = document.getElementById("search");
const list = document.getElementById("found");
let sections;

async function load() {
  sections ??= (await fetch("search.json")).json();
  return sections;
}

const pageOf = (section) => section?.link.split(".html")[0];

function rank(section, words, isPage) {
  const heading = section.title.toLowerCase();
  const text = section.text.toLowerCase();
  const name = words.join(" ");
  if (isPage && (heading === name || pageOf(section) === words.join("-"))) return PAGE_POINTS;
  let points = !section.reference && heading.endsWith(`: ${name}`) ? SECTION_POINTS : 0;
  for (const word of words) {
    if (heading.includes(word)) points += 10;
    else if (text.includes(word)) points += 1;
    else return 0;
  }
  if (words.length > 1 && heading.includes(name)) points += HEADING_PHRASE_POINTS;
  else if (words.length > 1 && text.includes(name)) points += TEXT_PHRASE_POINTS;
  return section.reference ? points * REFERENCE_WEIGHT : points;
}

function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - CONTEXT_CHARS);
  return (at > 0 ? "…" : "") + text.slice(at, at + 3 * CONTEXT_CHARS);
}

async function show() {
  // The index has no marks of code, which messages have.
  const words = box.value.toLowerCase().replaceAll("`", "").split(/\s+/).filter(Boolean);
  const all = words.length > 0 ? await load() : [];
  // The first section of a page is the page itself.
  const isPage = (section, at) => pageOf(section) !== pageOf(all[at - 1]);
  const ranked = all.map((section, at) => [rank(section, words, isPage(section, at)), section]);
  const found = ranked.filter(([points]) => points > 0);
  found.sort(([a], [b]) => b - a);
  const rows = found.slice(0, RESULTS_MAX).map(([, section]) => {
    const row = document.createElement("li");
    const link = document.createElement("a");
    link.href = section.link;
    link.textContent = section.title;
    const line = document.createElement("small");
    line.textContent = excerpt(section.text, words[0]);
    link.append(line);
    row.append(link);
    return row;
  });
  if (words.length > 0 && rows.length === 0) {
    const row = document.createElement("li");
    row.textContent = "Nothing found";
    rows.push(row);
  }
  list.replaceChildren(...rows);
  list.hidden = rows.length === 0;
}

box.addEventListener("input", show);
box.addEventListener("keydown", async (event) => {
  if (event.isComposing || (event.key !== "ArrowDown" && event.key !== "Enter")) return;
  event.preventDefault();
  await show();
  const first = list.querySelector("a");
  if (event.key === "Enter") first?.click();
  else first?.focus();
});
list.addEventListener("keydown", (event) => {
  const row = event.target.closest("li");
  if (!row || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
  event.preventDefault();
  const next = event.key === "ArrowDown" ? row.nextElementSibling ?? row : row.previousElementSibling;
  (next?.querySelector("a") ?? box).focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") list.hidden = true;
  if (event.key === "/" && !/^(input|textarea|select)$/i.test(event.target.tagName)) {
    event.preventDefault();
    box.focus();
  }
});
list.addEventListener("click", () => { list.hidden = true; });
