// The page: what is chosen, what is known, and drawing it. Data flows one way: address and feed -> draw.

import { h, show } from "./dom.js";
import { Feed } from "./feed.js";
import { frame, list, trust } from "./fleet.js";
import { service } from "./service.js";

const places = Object.fromEntries(["frame", "feed", "services", "service", "filter"].map((id) => [id, document.getElementById(id)]));
const wide = matchMedia("(min-width: 60rem)");

// What the address asks for; the skip link's own #service asks for nothing.
let asked = location.hash;

// [namespace, name] of the address, else the only service there is, else on a wide screen the first.
function selected() {
  const parts = asked.match(/^#\/([^/]+)\/([^/]+)$/);
  if (parts) return parts.slice(1).map(decoded);
  const services = feed.fleet?.services ?? [];
  const [first] = services;
  return first && (wide.matches || services.length === 1) ? [first.namespace, first.name] : null;
}

// A choice that the page made for the reader stands: services change places as they get into trouble.
function keep(chosen) {
  const address = `#/${chosen.map(encodeURIComponent).join("/")}`;
  if (asked === "" && wide.matches) {
    history.replaceState(null, "", address);
    asked = address;
  }
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const feed = new Feed(selected, draw);

function draw() {
  const [tone, sentence] = trust(feed);
  places.feed.className = tone;
  show(places.feed, sentence);
  const { fleet } = feed;
  const chosen = selected();
  const alone = fleet !== null && fleet.services.length + fleet.broken.length <= 1;
  document.body.classList.toggle("stale", feed.stale);
  document.body.classList.toggle("chosen", chosen !== null);
  document.body.classList.toggle("alone", alone);
  if (fleet === null) return;
  if (chosen !== null) keep(chosen);
  show(places.frame, frame(fleet));
  show(places.services, list(feed, chosen, places.filter.value));
  show(places.service, body(fleet, chosen));
  document.title = feed.service === null ? "Tandem" : `${feed.service.name}: ${feed.service.word} · Tandem`;
}

function body(fleet, chosen) {
  if (!fleet.services.length && !fleet.broken.length) return empty(fleet);
  if (chosen === null) return h("p", { class: "empty hint" }, "Choose a service.");
  if (feed.gone !== null) {
    return [h("a", { class: "back", href: "#/" }, "← All services"), h("p", { class: "empty" }, `${feed.gone}: it was deleted, or never was.`)];
  }
  const there = feed.service;
  if (there === null || there.namespace !== chosen[0] || there.name !== chosen[1]) {
    return h("p", { class: "empty" }, "Asking …");
  }
  return service(feed);
}

function empty(fleet) {
  if (fleet.state !== "deciding") {
    return h("p", { class: "empty" }, fleet.state === "standby" ? "Ask the replica that leads: kubectl get lease tells its name." : "Nothing is known yet.");
  }
  return h(
    "div",
    { class: "empty" },
    h("p", {}, "There is no InferenceService yet. Apply one, and it shows here within seconds:"),
    h("pre", {}, h("code", {}, "kubectl apply -f examples/llama-8b-disaggregated.yaml")),
  );
}

addEventListener("hashchange", () => {
  if (location.hash === "#service") return;
  asked = location.hash;
  draw();
  feed.ask();
  if (selected() !== null && !wide.matches) {
    scrollTo(0, 0);
    places.service.focus({ preventScroll: true });
  }
});
places.filter.addEventListener("input", draw);
wide.addEventListener("change", () => feed.ask());
// What is shown grows old by itself.
setInterval(() => trust(feed)[1] !== places.feed.textContent && draw(), 1000);
feed.start();
