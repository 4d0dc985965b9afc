// What is chosen on compare.html: read from the URL and written to it, and which series that asks for. Pure.
// A choice is {mode, kernel, unit, sort, text, a, b}, a side {commit, place, implementation}: a full SHA, a number of
// `places`, and a name, or EACH.
"use strict";

const Choice = (() => {
  const EACH = ""; // every implementation: against itself, or against the other side's one
  const USUAL = { mode: "commits", kernel: "", unit: "GFLOPS", sort: "effect", text: "" }; // what stands in no URL
  const VALUES = { mode: ["commits", "machines", "implementations", "anything"], unit: ["GFLOPS", "µs"], sort: ["effect", "slower", "faster", "name"] };
  const PARTS = ["commit", "place", "implementation"];
  const OWN = { commits: ["commit"], machines: ["place"], implementations: ["implementation"], anything: PARTS }; // of B
  const LEAST_DIGITS = 4; // of a hash
  const DIGITS = 12; // of a hash in a link

  const placeName = (place) => `${place.machine} · ${place.environment}`;
  const kernelName = (one) => `${one.kernel} ${one.device}`;
  const implementations = (series) => [...new Set(series.map((one) => one.implementation))].sort();
  const isOne = ({ a, b }) => PARTS.every((name) => a[name] === b[name]);

  /** Returns the commit that a text names: a tag, or the beginning of a hash; its first word counts. Null for none. */
  function resolve(commits, text) {
    const word = text.trim().split(/\s+/)[0];
    const tagged = commits.filter((commit) => commit.tags.includes(word));
    if (tagged.length === 1) return tagged[0];
    const digits = word.toLowerCase();
    if (!/^[0-9a-f]+$/.test(digits) || digits.length < LEAST_DIGITS) return null;
    const found = commits.filter((commit) => commit.sha.startsWith(digits));
    return found.length === 1 ? found[0] : null;
  }

  /** Returns up to `most` commits, newest first, that have every word of a text. */
  function matching(commits, text, most) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (let at = commits.length - 1; at >= 0 && found.length < most; at -= 1) {
      const { sha, subject, author, tags } = commits[at];
      const searched = `${sha} ${subject} ${author} ${tags.join(" ")}`.toLowerCase();
      if (words.every((word) => searched.includes(word))) found.push(commits[at]);
    }
    return found;
  }

  /** Returns the side that a URL names, completed by what is usual; what is not there is added to `gone`. */
  function side(said, letter, usual, { commits, places, series }, gone) {
    const found = { ...usual };
    const [sha, machine, environment, implementation] = ["", "m", "e", "i"].map((part) => said.get(letter + part));
    if (sha !== null) {
      const commit = resolve(commits, sha);
      if (commit) found.commit = commit.sha;
      else gone.push(["commit", sha]);
    }
    const wanted = Object.entries({ machine, environment }).filter(([, name]) => name !== null);
    if (wanted.length > 0) {
      const at = (few) => places.findIndex((one) => few.every(([part, name]) => one[part] === name));
      found.place = [at(wanted), at(wanted.slice(0, 1)), found.place].find((index) => index >= 0); // the machine's other environment is nearer
      gone.push(...wanted.filter(([part, name]) => places[found.place][part] !== name));
    }
    if (implementation !== null) {
      if (series.some((one) => one.implementation === implementation)) found.implementation = implementation;
      else gone.push(["implementation", implementation]);
    }
    return found;
  }

  /** Returns the next commit that a place measured, from an index of `commits` on (itself excluded) by a way, -1 or 1. */
  function next(commits, from, way, place) {
    for (let at = from + way; at >= 0 && at < commits.length; at += way) if (commits[at].places.includes(place)) return commits[at];
    return null;
  }

  /**
   * Returns what an address says; one that says nothing means the newest commit against the one before it, of those
   * that the place measured: by default the place that measured the newest of all. What it names and is not there is
   * added to `gone`, as Address.missed takes it.
   */
  function read(said, data, gone) {
    const chosen = Object.fromEntries(Object.entries(USUAL).map(([name, usual]) => [name, said.get(name) ?? usual]));
    const known = { ...VALUES, kernel: [USUAL.kernel, ...data.series.map(kernelName)] };
    for (const [name, values] of Object.entries(known)) {
      if (values.includes(chosen[name])) continue;
      gone.push([name, chosen[name]]);
      chosen[name] = USUAL[name];
    }
    const { commits } = data;
    const place = commits.findLast((commit) => commit.places.length > 0)?.places[0] ?? 0;
    chosen.a = side(said, "a", { commit: null, place, implementation: EACH }, data, gone);
    chosen.b = side(said, "b", { ...chosen.a, commit: null, implementation: EACH }, data, gone);
    const newest = (one) => (next(commits, commits.length, -1, one) ?? commits.at(-1)).sha;
    const before = (sha, one) => (next(commits, commits.findIndex((commit) => commit.sha === sha), -1, one) ?? { sha }).sha;
    const at = chosen.mode === "anything" ? chosen.b.place : chosen.a.place;
    chosen.b.commit ??= newest(at);
    chosen.a.commit ??= chosen.mode === "commits" ? before(chosen.b.commit, at) : newest(chosen.a.place);
    return chosen;
  }

  /** Returns a choice in which B differs from A in what the mode compares, and in nothing else. */
  function settled(chosen, places, series) {
    const b = { ...chosen.a };
    for (const name of OWN[chosen.mode]) b[name] = chosen.b[name];
    const found = { ...chosen, b };
    if (!isOne(found)) return found;
    if (chosen.mode === "machines" && places.length > 1) b.place = b.place === 0 ? 1 : 0;
    if (chosen.mode === "implementations") {
      const others = implementations(series).filter((name) => name !== b.implementation);
      b.implementation = others.includes("native") ? "native" : (others[0] ?? b.implementation);
    }
    return found;
  }

  /** Returns what the address of a choice says. */
  function write(chosen, places) {
    const said = new URLSearchParams(Object.entries(USUAL).flatMap(([name, usual]) => (chosen[name] === usual ? [] : [[name, chosen[name]]])));
    for (const letter of ["a", "b"]) {
      const { commit, place, implementation } = chosen[letter];
      said.set(letter, commit.slice(0, DIGITS));
      said.set(`${letter}m`, places[place].machine);
      said.set(`${letter}e`, places[place].environment);
      if (implementation !== EACH) said.set(`${letter}i`, implementation);
    }
    return said;
  }

  /** Returns a side's series: benchmark and test case -> implementation -> the versions. */
  function asked(chosenSide, kernel, series) {
    const found = new Map();
    for (const one of series) {
      if (one.place !== chosenSide.place || (kernel !== "" && kernelName(one) !== kernel)) continue;
      if (chosenSide.implementation !== EACH && one.implementation !== chosenSide.implementation) continue;
      const key = JSON.stringify([one.benchmark, one.case]);
      if (!found.has(key)) found.set(key, new Map());
      const own = found.get(key);
      if (!own.has(one.implementation)) own.set(one.implementation, []);
      own.get(one.implementation).push(one);
    }
    return found;
  }

  /** Returns the pairs of series that a choice asks for, each a list of versions; a side without a counterpart is null. */
  function pairs(chosen, series) {
    const sides = [chosen.a, chosen.b].map((one) => asked(one, chosen.kernel, series));
    const isEach = chosen.a.implementation === EACH && chosen.b.implementation === EACH;
    const found = [];
    for (const key of new Set([...sides[0].keys(), ...sides[1].keys()])) {
      const [a, b] = sides.map((one) => one.get(key) ?? new Map());
      if (isEach) for (const name of new Set([...a.keys(), ...b.keys()])) found.push([a.get(name) ?? null, b.get(name) ?? null]);
      else for (const one of orNull(a)) for (const other of orNull(b)) found.push([one, other]);
    }
    if (chosen.a.commit !== chosen.b.commit) return found;
    return found.filter(([a, b]) => a === null || b === null || a[0].name !== b[0].name); // nothing against itself
  }

  const orNull = (own) => (own.size === 0 ? [null] : own.values());

  return { EACH, OWN, PARTS, placeName, kernelName, implementations, isOne, resolve, matching, next, read, settled, write, pairs };
})();
