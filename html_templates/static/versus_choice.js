// What is chosen on compare.html: read from the address, written to it, and the pairs of series that it asks for. A choice
// is {kernel, sort, text, a, b}, a side {commit, place, implementation}: a full SHA, an index of `places`, and a name. An
// implementation of "" is each, and on side B, as a place of "", the same as on side A.
"use strict";

const Choice = (() => {
  const DEFAULTS = { kernel: "", sort: "effect", text: "" }; // which the address leaves out
  const SHORTEST = 4; // digits of a hash that is understood
  const DIGITS = 12; // of a hash in a link

  const kernelName = (series) => `${series.kernel} ${series.device}`.trim();

  /** Returns the SHA of the commit that a text names, a tag or the beginning of a hash; null for none. */
  function resolve(commits, text) {
    const isNamed = ({ sha, tags }) => tags.includes(text) || (text.length >= SHORTEST && sha.startsWith(text.toLowerCase()));
    const named = commits.filter(isNamed);
    return named.length === 1 ? named[0].sha : null;
  }

  /** Returns the newest commit that a place measured, of those before an index; the first one of all where there is none. */
  const newest = (commits, place, before = commits.length) => (commits.findLast((commit, at) => at < before && commit.places.includes(place)) ?? commits[0]).sha;

  /** Returns the commit that a place measured before another. */
  const before = (commits, sha, place) => newest(commits, place, commits.findIndex((commit) => commit.sha === sha));

  /** Returns a side of a choice in full. */
  const sideOf = ({ a, b }, letter) => (letter === "a" ? a
    : { ...b, place: b.place === "" ? a.place : b.place, implementation: b.implementation || a.implementation });

  /** Returns whether B is of another machine or implementation than A. */
  const isOther = (chosen) => ["place", "implementation"].some((name) => sideOf(chosen, "b")[name] !== chosen.a[name]);

  /** Returns the side that an address names, with what it leaves out from `usual`; what is not there is added to `gone`. */
  function side(query, letter, usual, { commits, places, series }, gone) {
    const chosen = { ...usual };
    const [sha, machine, environment, implementation] = ["", "m", "e", "i"].map((part) => query.get(letter + part));
    if (sha !== null) {
      chosen.commit = resolve(commits, sha);
      if (chosen.commit === null) gone.push(["commit", sha]);
    }
    const wanted = Object.entries({ machine, environment }).filter(([, name]) => name !== null);
    if (wanted.length > 0) {
      const indexOf = (labels) => places.findIndex((place) => labels.every(([part, name]) => place[part] === name));
      // Another environment of the same machine comes before another machine
      chosen.place = [indexOf(wanted), indexOf(wanted.slice(0, 1))].find((index) => index >= 0) ?? usual.place;
      gone.push(...wanted.filter(([part, name]) => places[chosen.place]?.[part] !== name));
    }
    if (implementation === null) return chosen;
    if (series.some((item) => item.implementation === implementation)) chosen.implementation = implementation;
    else gone.push(["implementation", implementation]);
    return chosen;
  }

  /**
   * Returns the choice of an address. The default is the newest commit against the one before it, of those that the
   * place measured; the default place is the one that measured the newest commit of all. What the address names and the
   * page lacks is added to `gone`, as Address.missed takes it.
   */
  function read(query, data, gone) {
    const { commits, series } = data;
    /** @type {any} */
    const chosen = Object.fromEntries(Object.entries(DEFAULTS).map(([name, usual]) => [name, query.get(name) ?? usual]));
    for (const [name, values] of Object.entries({ sort: Object.keys(Rows.RANKS), kernel: ["", ...series.map(kernelName)] })) {
      if (values.includes(chosen[name])) continue;
      gone.push([name, chosen[name]]);
      chosen[name] = DEFAULTS[name];
    }
    const place = commits.findLast((commit) => commit.places.length > 0)?.places[0] ?? 0;
    const a = chosen.a = side(query, "a", { commit: null, place, implementation: "" }, data, gone);
    const b = chosen.b = side(query, "b", { commit: null, place: "", implementation: "" }, data, gone);
    const at = sideOf(chosen, "b").place;
    b.commit ??= (isOther(chosen) && a.commit) || newest(commits, at);
    a.commit ??= isOther(chosen) ? b.commit : before(commits, b.commit, at);
    return chosen;
  }

  /** Returns the address of a choice. */
  function write(chosen, places) {
    const query = new URLSearchParams(Object.keys(DEFAULTS).filter((name) => chosen[name] !== DEFAULTS[name]).map((name) => [name, chosen[name]]));
    for (const letter of ["a", "b"]) {
      const { commit, place, implementation } = chosen[letter];
      const labels = { "": commit.slice(0, DIGITS), m: places[place]?.machine, e: places[place]?.environment, i: implementation };
      for (const [part, label] of Object.entries(labels)) if (label) query.set(letter + part, label);
    }
    return query;
  }

  /** Returns the pairs of series that a choice asks for, as lists of versions; empty for a missing counterpart. */
  function pairs(chosen, series) {
    const [ofA, ofB] = ["a", "b"].map((letter) => {
      const { place, implementation } = sideOf(chosen, letter);
      return series.filter((item) => item.place === place && ["", item.implementation].includes(implementation) && ["", kernelName(item)].includes(chosen.kernel));
    });
    const keyOf = (item) => JSON.stringify([item.benchmark, item.case, ...(chosen.b.implementation === "" ? [item.implementation] : [])]);
    const [mapA, mapB] = [ofA, ofB].map((items) => { // key -> implementation -> versions
      const map = new Map();
      for (const item of items) {
        if (!map.has(keyOf(item))) map.set(keyOf(item), {});
        (map.get(keyOf(item))[item.implementation] ??= []).push(item);
      }
      return map;
    });
    const listed = (map, key) => (map.has(key) ? Object.values(map.get(key)) : [[]]);
    const all = [...new Set([...mapA.keys(), ...mapB.keys()])].flatMap((key) => listed(mapA, key).flatMap((a) => listed(mapB, key).map((b) => [a, b])));
    // nothing against itself
    return chosen.a.commit === chosen.b.commit ? all.filter(([a, b]) => a[0]?.name !== b[0]?.name) : all;
  }

  return { kernelName, isOther, before, sideOf, read, write, pairs };
})();
