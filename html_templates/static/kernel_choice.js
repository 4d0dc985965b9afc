// What a reader chose of a kernel's page: in its form, and in the address, so that it survives reload and can be shared.
"use strict";

const KernelChoice = (() => {
  const FIELDS = ["case", "unit", "state", "range", "scale"];

  function options(select) {
    return Array.from(select.options);
  }

  /** Takes from the address what it says and the page has; the rest stays as the page came. */
  function take(form) {
    const said = Address.read();
    for (const name of FIELDS) Address.set(form.elements[name], said.get(name), form.elements[name].dataset.first);
    const places = form.elements.machine;
    const place = options(places).find((option) => option.dataset.machine === said.get("machine")
      && (!said.has("environment") || option.dataset.environment === said.get("environment")));
    places.value = place?.value ?? places.options[0].value;
    const hidden = new Set(said.getAll("hide"));
    for (const box of boxes(form)) box.checked = !hidden.has(box.value);
  }

  /** Puts what is chosen, and is not what the page begins with, into the address. */
  function put(form) {
    const said = new URLSearchParams();
    for (const name of FIELDS) {
      const select = form.elements[name];
      if (select.value !== select.dataset.first) said.set(name, select.value);
    }
    const places = form.elements.machine;
    if (places.selectedIndex > 0) {
      said.set("machine", places.selectedOptions[0].dataset.machine);
      said.set("environment", places.selectedOptions[0].dataset.environment);
    }
    for (const box of boxes(form)) if (!box.checked) said.append("hide", box.value);
    Address.write(said);
  }

  function boxes(form) {
    return Array.from(form.querySelectorAll("[name=implementation]"));
  }

  /** Lets a select offer only some values; if the chosen one is none of them, the first that is. */
  function offer(select, values) {
    for (const option of options(select)) option.disabled = !values.has(option.value);
    if (!values.has(select.value)) select.value = options(select).find((option) => !option.disabled)?.value ?? "";
  }

  function implementations(form) {
    return new Set(boxes(form).filter((box) => box.checked).map((box) => box.value));
  }

  return { take, put, offer, implementations };
})();
