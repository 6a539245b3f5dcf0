// One service: its promises, its workers, and why each role has so many.

import { chart } from "./chart.js";
import { h } from "./dom.js";
import { old } from "./fleet.js";
import { UNKNOWN, ago, clock, number, seconds, share } from "./words.js";

// So many of the last changes are shown at once.
const FEW = 4;

export function service(feed) {
  const one = feed.service;
  const now = feed.fleet.nowSeconds;
  return [
    h(
      "div",
      { class: "title" },
      h("a", { class: "back", href: "#/" }, "← All services"),
      h("h2", {}, h("span", { class: "where" }, `${one.namespace} / `), one.name),
      h("span", { class: `badge ${one.tone}` }, one.word),
      h("span", { class: "mode" }, `autoscaling ${one.mode}`),
    ),
    warnings(feed, one),
    h("div", { class: "pair" }, promise("TTFT", "time to the first token", one, now), promise("TPOT", "time per token", one, now)),
    workers(one, now),
    decisions(one),
    changes(one, now),
    conditions(one),
  ];
}

function warnings(feed, one) {
  const found = [];
  if (old(feed, one)) found.push(`What is shown of this service was seen ${ago(one.ageSeconds)}: its tick fails; see the autoscaler's log.`);
  if (one.writeFailed !== null) found.push(`The API server refuses: ${one.writeFailed}`);
  if (one.silent.length) {
    const [first] = one.silent;
    const more = one.silent.length > 1 ? ` (and ${one.silent.length - 1} more pods)` : "";
    found.push(`Without an answer: ${first.pod}, ${first.why}${more}`);
  }
  // A place of its own, so that what follows stays where it is.
  return h("div", { class: "warnings" }, found.map((text) => h("p", { class: "warning" }, text)));
}

function promise(name, meaning, one, now) {
  const kept = name === "TTFT" ? one.ttft : one.tpot;
  const heading = h("h3", {}, name, h("span", { class: "meaning" }, ` ${meaning}`));
  if (kept === null) return h("section", { class: "card" }, heading, h("p", { class: "empty" }, "No target is set."));
  const { history } = one;
  const values = name === "TTFT" ? history.ttft : history.tpot;
  const measured = values.filter((value) => value !== null);
  const late = kept.tailSeconds !== null && kept.tailSeconds > kept.targetSeconds;
  const judged = kept.tailSeconds === null ? "target" : late ? "above the target of" : "within the target of";
  const tail = `p${one.percentile}`;
  const highest = measured.length ? `highest ${seconds(Math.max(...measured))}` : "nothing measured";
  return h(
    "section",
    { class: "card" },
    heading,
    h(
      "p",
      { class: "reading" },
      h("strong", { class: kept.tailSeconds === null ? "quiet" : late ? "bad" : "good" }, seconds(kept.tailSeconds)),
      h("span", {}, ` ${tail}, ${judged} ${seconds(kept.targetSeconds)}`),
    ),
    h("p", { class: "small" }, "Requests in time, last minute: ", share(kept.shareLeast, kept.shareMost)),
    chart({
      label: `${name} ${tail} over the last half hour: now ${seconds(kept.tailSeconds)}, ${highest}, target ${seconds(kept.targetSeconds)}`,
      at: history.at,
      now,
      span: history.spanSeconds,
      lines: [{ name: tail, values }],
      level: { name: "target", value: kept.targetSeconds },
      text: seconds,
    }),
  );
}

function workers(one, now) {
  const budget = one.gpus.budget === null ? "no budget of its own" : `budget ${one.gpus.budget}`;
  return h(
    "section",
    { class: "card" },
    h("h3", {}, "Workers"),
    h("p", { class: "small" }, `${number(one.gpus.taken)} GPUs taken, starting and draining workers included; ${budget}`),
    one.gpus.budget !== null && one.gpus.taken !== null && meter(one.gpus),
    h("div", { class: "workers" }, table(one.roles), one.roles.map((each) => replicas(each, one.history, now))),
  );
}

// The roles side by side: two or three columns fit every screen.
const FACTS = [
  ["ready", (role) => number(role.ready)],
  ["target", (role) => number(role.target)],
  ["starting", (role) => (role.stuck ? `${role.starting} (${role.stuck} stuck)` : number(role.starting))],
  ["draining", (role) => number(role.draining)],
  ["limits", (role) => (role.minimum === null ? UNKNOWN : `${role.minimum} to ${role.maximum}`)],
  ["GPUs", (role) => number(role.gpus)],
];

function table(roles) {
  const head = h("tr", {}, h("td", {}), roles.map((role) => h("th", { scope: "col", class: "number" }, role.role)));
  const line = ([name, text]) =>
    h("tr", {}, h("th", { scope: "row" }, name), roles.map((role) => h("td", { class: "number" }, text(role))));
  return h("table", { "aria-label": "Workers by role" }, h("thead", {}, head), h("tbody", {}, FACTS.map(line)));
}

function meter(gpus) {
  const text = `${gpus.taken} of ${gpus.budget} GPUs taken`;
  return h("meter", { min: 0, max: gpus.budget, value: gpus.taken, "aria-label": text }, text);
}

function replicas(one, history, now) {
  const { ready, target } = history.replicas[one.role];
  return h(
    "div",
    { "data-key": one.role },
    h("h4", {}, one.role),
    chart({
      label: `${one.role} workers over the last half hour: now ${number(one.ready)} ready, target ${number(one.target)}`,
      at: history.at,
      now,
      span: history.spanSeconds,
      lines: [{ name: "ready", values: ready, step: true }, { name: "target", values: target, step: true }],
      text: String,
      whole: true,
    }),
  );
}

function decisions(one) {
  return h(
    "section",
    { class: "card" },
    h("h3", {}, "Why so many"),
    one.decisions.length
      ? one.decisions.map((each) => h("div", { class: "decision", "data-key": each.role }, told(each, null)))
      : h("p", { class: "empty" }, "Nothing is decided for this service: see its conditions below."),
  );
}

function changes(one, now) {
  return h(
    "section",
    { class: "card" },
    h("h3", {}, "Last changes"),
    one.changes.length
      ? [listed(one.changes.slice(0, FEW), now), one.changes.length > FEW && earlier(one.changes.slice(FEW), now)]
      : h("p", { class: "empty" }, "No pool was changed since this process began."),
  );
}

function earlier(some, now) {
  const title = some.length === 1 ? "One change before" : `${some.length} changes before`;
  return h("details", { class: "earlier" }, h("summary", {}, title), listed(some, now));
}

function listed(some, now) {
  const item = (each) => h("li", { "data-key": `${each.atSeconds}/${each.role}` }, told(each, now));
  return h("ol", { class: "changes" }, some.map(item));
}

function told(each, now) {
  const move = each.from === each.to ? `stays at ${each.to}` : `${each.from} → ${each.to}`;
  return [
    h(
      "p",
      { class: "move" },
      h("strong", {}, `${each.role} ${move}`),
      h("span", { class: "reason" }, each.reason),
      each.kind && h("span", { class: `badge ${each.kind === "refused" ? "bad" : "quiet"}` }, each.kind === "refused" ? "refused by the API server" : each.kind),
      now !== null && when(each.atSeconds, now),
    ),
    h("p", {}, each.message),
    each.numbers.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, "The numbers"),
        h("table", { class: "numbers" }, h("tbody", {}, each.numbers.map(([words, value]) => h("tr", {}, h("th", { scope: "row" }, words), h("td", { class: "number" }, value))))),
      ),
  ];
}

function when(atSeconds, now) {
  if (atSeconds === null) return h("span", { class: "when" }, UNKNOWN);
  const exact = new Date(atSeconds * 1000);
  return h("time", { class: "when", datetime: exact.toISOString() }, `${clock(atSeconds)}, ${ago(now - atSeconds)}`);
}

function conditions(one) {
  return h(
    "section",
    { class: "card" },
    h("h3", {}, "Conditions"),
    h(
      "dl",
      { class: "conditions" },
      one.conditions.map((each) => h("div", { "data-key": each.type }, h("dt", {}, each.type, " ", h("span", { class: `badge ${each.tone}` }, each.status)), h("dd", {}, h("span", { class: "reason" }, each.reason), ` ${each.message}`))),
    ),
  );
}
