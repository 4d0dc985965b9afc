// The search of the navigation: kernels, test cases and commits by words of their names. The data are loaded when the
// field is used for the first time. Without this script there is no field.
"use strict";

(() => {
  const MOST = 12; // results at once
  const form = document.querySelector("form.search");
  const [field, results, output] = ["input", "ul", "output"].map((name) => form.querySelector(name));
  let searchable = null; // promise of what can be found

  async function load() {
    const [{ entries }, { commits }] = await Promise.all([KV.load("search"), KV.load("commits")]);
    const ofCommits = [...commits].reverse().map(({ sha, subject, author, page }) => [`${sha.slice(0, 8)} ${subject}`, page, `${sha} ${author}`]);
    return [...entries, ...ofCommits].map(([text, href, more = ""]) => ({ text, href, names: `${text} ${more}`.toLowerCase() }));
  }

  async function find() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    try {
      searchable ??= load();
      const searched = words.length ? await searchable : [];
      const matches = searched.filter(({ names }) => words.every((word) => names.includes(word)));
      results.replaceChildren(...matches.slice(0, MOST).map(({ text, href }) => make("li", {}, make("a", { href }, foreign(text)))));
      output.textContent = !words.length ? "" : matches.length > MOST ? `${MOST} of ${Numbers.count(matches.length)} found` : `${matches.length} found`;
    } catch (error) {
      searchable = null;
      output.textContent = messageOf(error);
    }
  }

  form.hidden = false;
  field.addEventListener("input", find);
  field.addEventListener("focus", find);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    results.querySelector("a")?.click();
  });
  document.addEventListener("keydown", (event) => {
    const at = document.activeElement;
    if (event.key === "Escape" && at instanceof HTMLElement && form.contains(at)) at.blur();
    if (event.key !== "/" || event.ctrlKey || event.metaKey || at?.matches("input, select, textarea")) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
})();
