"use strict";
// The theme: as the system has it, until the reader chooses.
{
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  system.addEventListener("change", label);
  button.hidden = false;
  button.title = "Change between light and dark";
  label();
}
// Sorting: a button in every column's head; numbers by value, words as the language orders them, empty cells last.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      body.append(...[...body.rows].sort((a, b) => compare(a.cells[column], b.cells[column], sign)));
    });
  });
}
function compare(a, b, sign) {
  const [x, y] = [a.textContent, b.textContent];
  if (x === "" || y === "") return (x === "") - (y === "");
  const [m, n] = [a.dataset.value, b.dataset.value];
  if (m !== undefined && n !== undefined) return sign * (m - n);
  if (m !== undefined || n !== undefined) return m === undefined ? 1 : -1;
  return sign * x.localeCompare(y, undefined, { numeric: true });
}
