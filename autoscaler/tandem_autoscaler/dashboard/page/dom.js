// Elements out of data. Text goes in as text nodes and nothing is ever parsed as HTML: what a name or a sentence
// holds cannot become part of the page.

const SVG = "http://www.w3.org/2000/svg";

// h("p", {class: "x"}, "text", child, ...); null, undefined and false are left out.
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child);
    }
  }
  return element;
}

// Make `place` hold `wanted`, changing only what differs, so that focus, selection, scrolling and opened details stay.
export function show(place, ...wanted) {
  const goal = h("div", {}, wanted);
  patchChildren(place, goal);
}

function patchChildren(old, wanted) {
  const goals = [...wanted.childNodes];
  goals.forEach((goal, at) => {
    const present = old.childNodes[at];
    if (present === undefined) {
      old.append(goal);
    } else if (!alike(present, goal)) {
      present.replaceWith(goal);
    } else if (present.nodeType === Node.TEXT_NODE) {
      if (present.data !== goal.data) present.data = goal.data;
    } else {
      patchAttributes(present, goal);
      patchChildren(present, goal);
    }
  });
  while (old.childNodes.length > goals.length) old.lastChild.remove();
}

function alike(present, goal) {
  return (
    present.nodeType === goal.nodeType &&
    present.nodeName === goal.nodeName &&
    present.getAttribute?.("data-key") === goal.getAttribute?.("data-key")
  );
}

function patchAttributes(present, goal) {
  for (const { name } of [...present.attributes]) {
    // Whether details are open is the reader's choice.
    if (!goal.hasAttribute(name) && name !== "open") present.removeAttribute(name);
  }
  for (const { name, value } of goal.attributes) {
    if (present.getAttribute(name) !== value) present.setAttribute(name, value);
  }
}
