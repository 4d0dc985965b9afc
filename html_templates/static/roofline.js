// The page of the rooflines: says below a chart what the dot is that the pointer or the keyboard is at.
"use strict";

for (const line of document.querySelectorAll(".shown")) {
  const say = ({ target }) => {
    const title = target.closest(".mark")?.querySelector("title");
    if (title) line.textContent = title.textContent;
  };
  for (const event of ["pointerover", "focusin"]) line.closest(".card").querySelector("svg.frame").addEventListener(event, say);
  line.hidden = false;
}
