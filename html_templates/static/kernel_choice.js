// What a reader chose of a kernel's page: in its form, and in the address, so that it survives reload and can be shared.
"use strict";

const KernelChoice = (() => {
  const FIELDS = ["case", "unit", "state", "range", "scale"];
  const WORDS = {
    machine: "machine", environment: "environment", case: "test case", unit: "quantity", state: "cache state",
    range: "number of commits", scale: "scale", source: "source as of",
  };

  function options(select) {
    return Array.from(select.options);
  }

  /** Takes from the address what it says and the page has; the rest stays as the page came. */
  function take(form) {
    const said = Address.read();
    for (const name of FIELDS) Address.set(form.elements[name], said.get(name), form.elements[name].dataset.first);
    const places = form.elements.machine;
    const known = options(places);
    const place = known.find((option) => isPlace(option, said)) ?? known.find((option) => option.dataset.machine === said.get("machine"));
    places.value = (place ?? known[0]).value;
    const hidden = new Set(said.getAll("hide"));
    for (const box of boxes(form)) box.checked = !hidden.has(box.value);
  }

  function isPlace({ dataset }, said) {
    return ["machine", "environment"].every((name) => !said.has(name) || dataset[name] === said.get(name));
  }

  /** Returns what the address asks for and the form, narrowed to what there is, does not show; "" for nothing. */
  function missed(form) {
    const said = Address.read();
    const place = form.elements.machine.selectedOptions[0].dataset;
    const shown = Object.fromEntries(FIELDS.map((name) => [name, form.elements[name].value]));
    Object.assign(shown, { machine: place.machine, environment: place.environment, source: sourceShown() });
    const gone = Object.keys(WORDS).filter((name) => said.has(name) && said.get(name) !== shown[name]);
    return Address.missed(gone.map((name) => [WORDS[name], said.get(name)]));
  }

  /** Returns the version of the source that is chosen elsewhere on the page (kernel_tables.js). */
  function sourceShown() {
    return document.querySelector(".source select")?.value;
  }

  /** Puts what is chosen, and is not what the page begins with, into the address: a step of the reader's way. */
  function put(form) {
    const said = new URLSearchParams();
    const source = Address.read().get("source");
    if (source !== null && source === sourceShown()) said.set("source", source);
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
    Address.write(said, true);
  }

  function boxes(form) {
    return Array.from(form.querySelectorAll("[name=implementation]"));
  }

  /** Lets a select offer only some values; if the chosen one is none of them, the first that is. */
  function offer(select, values) {
    for (const option of options(select)) option.disabled = !values.has(option.value);
    if (!values.has(select.value)) select.value = options(select).find((option) => !option.disabled)?.value ?? "";
  }

  /** Lets the reader check only implementations of some names: of others there is nothing to show. */
  function offerBoxes(form, names) {
    for (const box of boxes(form)) box.closest("label").hidden = !names.includes(box.value);
    form.querySelector("fieldset").hidden = names.length === 0;
  }

  function implementations(form) {
    return new Set(boxes(form).filter((box) => box.checked).map((box) => box.value));
  }

  return { take, missed, put, offer, offerBoxes, implementations };
})();
