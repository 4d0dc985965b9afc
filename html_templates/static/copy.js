// Copies texts. `<button data-copy="ID">` copies the text of the element ID, and says in its own words that it did.
"use strict";

/** Copies a text; returns whether that was possible: from a folder a page may have no clipboard to write to. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.style.position = "fixed";
    field.style.opacity = "0";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

/** Copies a text, and has a button say for a while what came of it. */
async function copyAndSay(button, text) {
  const usual = button.dataset.usual ?? button.textContent;
  button.dataset.usual = usual;
  button.textContent = (await copyText(text)) ? "copied" : "not allowed here: select it";
  setTimeout(() => { button.textContent = usual; }, 2000);
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => copyAndSay(button, document.getElementById(button.dataset.copy).textContent));
}
