// The frame: is the loop alive, which services are there.

import { h } from "./dom.js";
import { UNKNOWN, ago, clock, number, seconds } from "./words.js";

export function frame(fleet) {
  const budget = fleet.gpus.budget === null ? "" : ` of ${fleet.gpus.budget}`;
  const missed = fleet.services.filter((service) => service.tone === "bad").length + fleet.broken.length;
  return h(
    "dl",
    { class: "totals" },
    total("services", fleet.services.length + fleet.broken.length),
    total("in trouble", missed),
    total("GPUs taken", fleet.services.length ? `${number(fleet.gpus.taken)}${budget}` : `0${budget}`),
  );
}

function total(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, String(value)));
}

// One sentence on how far what is shown can be trusted, and its colour.
export function trust(feed) {
  if (feed.failedAt !== null) {
    const since = clock(feed.failedAt.getTime() / 1000);
    return feed.fleet === null
      ? ["bad", "The autoscaler cannot be reached."]
      : ["bad", `The autoscaler cannot be reached since ${since}: what is shown is old.`];
  }
  if (feed.fleet === null) return ["quiet", "Asking the autoscaler …"];
  if (feed.fleet.state === "standby") {
    return ["warn", "This replica stands by: another one leads and decides."];
  }
  if (feed.fleet.state === "starting") return ["quiet", "The first tick has not ended yet."];
  // While all is well the sentence stays the same, so that a screen reader is not told every second.
  if (!feed.stale) return ["good", "Live"];
  return ["bad", `Stale: the last decision was ${ago(10 * Math.floor(feed.decidedAge / 10))}.`];
}

export function list(feed, selected, filter) {
  const { services, broken } = feed.fleet;
  if (!services.length && !broken.length) return [];
  const wanted = filter.trim().toLowerCase();
  const fits = (one) => `${one.namespace}/${one.name}`.toLowerCase().includes(wanted);
  const rows = services.filter(fits).map((one) => row(feed, one, selected));
  const faults = broken.filter(fits).map(fault);
  if (!rows.length && !faults.length) return [h("p", { class: "empty" }, "No service has such a name.")];
  return [h("ul", {}, faults, rows)];
}

function row(feed, one, selected) {
  const here = selected !== null && selected[0] === one.namespace && selected[1] === one.name;
  const key = `${one.namespace}/${one.name}`;
  return h(
    "li",
    { "data-key": key },
    h(
      "a",
      { href: `#/${encodeURIComponent(one.namespace)}/${encodeURIComponent(one.name)}`, "aria-current": here && "page" },
      h(
        "span",
        { class: "head" },
        h("span", { class: "name" }, one.name),
        h("span", { class: `badge ${one.tone}` }, one.word),
      ),
      h("span", { class: "where" }, one.mode === "Auto" ? one.namespace : `${one.namespace} · ${one.mode}`),
      h("span", { class: "facts" }, promise("TTFT", one.ttft), promise("TPOT", one.tpot), one.roles.map(role)),
      old(feed, one) && h("span", { class: "old" }, `seen ${ago(one.ageSeconds)}`),
    ),
  );
}

// A service of its own may be old while the loop turns: its own tick fails.
export function old(feed, one) {
  return feed.decidedAge !== null && one.ageSeconds - feed.fleet.decidedAgeSeconds > feed.longest;
}

function promise(name, kept) {
  if (kept === null) return null;
  return h("span", { class: "fact" }, `${name} ${seconds(kept.tailSeconds)} / ${seconds(kept.targetSeconds)}`);
}

function role(one) {
  const ready = number(one.ready);
  const move = one.target !== null && one.target !== one.ready ? ` → ${one.target}` : "";
  return h("span", { class: "fact" }, `${one.role} ${ready}${ready === UNKNOWN ? "" : move}`);
}

function fault(one) {
  return h(
    "li",
    { class: "fault", "data-key": `${one.namespace}/${one.name}` },
    h("span", { class: "head" }, h("span", { class: "name" }, one.name), h("span", { class: "badge bad" }, "left alone")),
    h("span", { class: "where" }, one.namespace),
    h("span", {}, one.message),
  );
}
