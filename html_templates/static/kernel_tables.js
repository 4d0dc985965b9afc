// The tables of a kernel's page: the commits that the page leaves out, and older sources.
"use strict";

const MORE = 200; // rows added at a time: the page stays responsive

/** Offers the commits that the table of a test case leaves out, newest first; `isWhole`: all of its series are there. */
function offerMore(anchor, model, isWhole) {
  const cards = Array.from(document.querySelectorAll(".behind .case"));
  const card = cards.find(({ dataset, parentElement }) => parentElement.dataset.group === anchor && dataset.case === model.case);
  const further = card?.querySelector(".further");
  if (!further) return;
  const [count, button] = further.children;
  const body = card.querySelector("tbody");
  const present = new Set(Array.from(body.querySelectorAll("a.sha"), (link) => link.getAttribute("href")));
  const left = Array.from(model.commits.keys()).reverse().filter((x) => !present.has(model.commits[x].page));
  const lines = Array.from(card.querySelectorAll("thead th bdi"), (head) => model.lines.find((line) => (line.name || "value") === head.textContent));
  const say = () => {
    count.textContent = `the newest ${Numbers.count(body.rows.length)} of ${Numbers.count(body.rows.length + left.length)} commits`;
    button.textContent = `show ${Math.min(MORE, left.length)} more`;
    button.hidden = !isWhole;
    further.hidden = left.length === 0;
  };
  button.onclick = () => {
    body.append(...left.splice(0, MORE).map((x) => make("tr", {},
      make("th", { class: "commit", scope: "row" }, ...commitHead(model.commits[x])),
      ...lines.map((line) => cellOf(line, x)))));
    say();
  };
  say();
}

function cellOf(line, x) {
  const [columns, entry] = [line?.series.columns, line?.at[x] ?? MISSING];
  return resultCell(columns, entry, entry === MISSING ? undefined : changeAt(columns, entry));
}

/** Shows the chosen version of the kernel's source. */
async function showSource(source, select) {
  if (!select) return;
  select.disabled = false;
  if ((source.dataset.shown ?? select.options[0].value) === select.value) return;
  const wanted = source.dataset.shown = select.value;
  const files = source.querySelector(".files");
  source.open = true;
  try {
    const { texts, versions } = await KV.load(source.dataset.source);
    if (select.value !== wanted) return;
    const version = versions.find(({ commit }) => commit === wanted);
    files.replaceChildren(...Object.entries(version.files).flatMap(([name, text]) => [
      make("h3", {}, name), make("pre", { tabindex: 0, "aria-label": name }, make("code", {}, texts[text])),
    ]));
  } catch (error) {
    files.textContent = messageOf(error);
  }
}
