// A small chart of the last half hour: lines over time, with a hole where nothing was measured.

import { h, svg } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 100;
// Points further apart than this belong to no common line, in steps of the history.
const HOLE_STEPS = 2.6;
const STEP_SECONDS = 15;

// A peak far above the level would flatten all else: it is cut off there, and told beside.
const MOST_LEVELS = 4;

// lines: [{name, values, step}]; `step`: the value holds until the next one. level: {name, value}, a constant line.
export function chart({ label, at, now, span, lines, level, text, whole }) {
  const values = lines.flatMap((line) => line.values).filter((value) => value !== null);
  const highest = Math.max(...values, 0);
  const shown = level ? Math.min(highest, MOST_LEVELS * level.value) : highest;
  const top = ceiling(Math.max(shown, level ? level.value * 1.2 : 0, whole ? 1 : 0), whole);
  const x = (moment) => (WIDTH * (1 - (now - moment) / span)).toFixed(1);
  const y = (value) => (HEIGHT * (1 - Math.min(value, top) / top)).toFixed(1);
  const drawn = lines.map((line, index) => svg("path", { class: `line line-${index}`, d: path(line, at, x, y) }));
  const constant = level && svg("path", { class: "level", d: `M0 ${y(level.value)}H${WIDTH}` });
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    constant,
    drawn,
  );
  return h(
    "figure",
    { class: "chart" },
    h("div", { class: "axis", "aria-hidden": "true" }, h("span", {}, text(top)), h("span", {}, "0")),
    picture,
    h(
      "figcaption",
      { "aria-hidden": "true" },
      h("span", {}, `${Math.round(span / 60)} min ago`),
      h(
        "span",
        { class: "keys" },
        lines.map((line, index) => h("span", { class: `key key-${index}` }, line.name)),
        level && h("span", { class: "key key-level" }, `${level.name} ${text(level.value)}`),
        highest > top && h("span", { class: "peak" }, `highest ${text(highest)}`),
      ),
      h("span", {}, "now"),
    ),
  );
}

function path(line, at, x, y) {
  let drawn = "";
  let before = null;
  line.values.forEach((value, index) => {
    if (value === null) {
      before = null;
      return;
    }
    const joined = before !== null && at[index] - at[before] <= HOLE_STEPS * STEP_SECONDS;
    if (!joined) {
      drawn += `M${x(at[index])} ${y(value)}h0.1`; // a point alone is still seen
    } else if (line.step) {
      drawn += `H${x(at[index])}V${y(value)}`;
    } else {
      drawn += `L${x(at[index])} ${y(value)}`;
    }
    before = index;
  });
  return drawn;
}

// The next round number.
function ceiling(value, whole) {
  if (!(value > 0)) return 1;
  if (whole) return Math.ceil(value) + 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((digit) => digit * power >= value * 0.999) * power;
}
