// Buttons that copy: `<button data-copy="ID">` copies the text of the element ID, and says so in its own words.
"use strict";

/** Copies a text; returns whether that was possible. From a folder a page may have no clipboard to write to. */
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

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  const usual = button.textContent;
  button.addEventListener("click", async () => {
    const done = await copyText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = done ? "copied" : "select it, and copy";
    setTimeout(() => { button.textContent = usual; }, 2000);
  });
}
