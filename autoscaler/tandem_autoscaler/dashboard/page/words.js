// Numbers in words. What is not known is "unknown", never 0.

export const UNKNOWN = "unknown";

export function seconds(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value === 0) return "0 s";
  if (value < 0.001) return `${trimmed(value * 1e6)} µs`;
  if (value < 1) return `${trimmed(value * 1e3)} ms`;
  return value < 120 ? `${trimmed(value)} s` : `${trimmed(value / 60)} min`;
}

// Three digits that count.
function trimmed(value) {
  return String(Number(value.toPrecision(3)));
}

export function number(value) {
  return value === null || value === undefined ? UNKNOWN : String(value);
}

export function share(least, most) {
  if (least === null && most === null) return UNKNOWN;
  if (least === null) return `${percent(most)} at most`;
  if (most === null || percent(least) === percent(most)) return percent(least);
  return `${percent(least)} to ${percent(most)}`;
}

function percent(value) {
  // 99.96 % is not all of them.
  const text = value < 1 ? Math.min(99.9, value * 100).toFixed(1) : "100";
  return `${text.replace(/\.0$/, "")} %`;
}

export function ago(value) {
  if (value === null || value === undefined) return UNKNOWN;
  const whole = Math.max(0, Math.round(value));
  if (whole < 120) return `${whole} s ago`;
  if (whole < 7200) return `${Math.floor(whole / 60)} min ago`;
  return whole < 172800 ? `${Math.floor(whole / 3600)} h ago` : `${Math.floor(whole / 86400)} d ago`;
}

export function clock(epochSeconds) {
  return new Date(epochSeconds * 1000).toLocaleTimeString([], { hour12: false });
}
