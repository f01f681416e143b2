// What the pictures are made with.

const namespace = "http://www.w3.org/2000/svg";

// draw appends an SVG element to a parent and returns it.
export function draw(parent, name, attributes = {}, text) {
  const element = document.createElementNS(namespace, name);
  set(element, attributes);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// set changes attributes, and touches only those that differ.
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = typeof value === "number" ? String(Math.round(value * 100) / 100) : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

// write changes an element's text if it differs.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// show hides an element or shows it.
export function show(element, shown) {
  set(element, { visibility: shown ? "visible" : "hidden" });
}

// seconds writes microseconds as seconds with a number of decimals, rounded up, so
// that nothing is over before it is. By default it has up to four digits.
export function seconds(microseconds, decimals = microseconds < 100e6 ? 2 : 1) {
  const scale = 10 ** decimals;
  return (Math.ceil((microseconds / 1e6) * scale - 1e-9) / scale).toFixed(decimals) + " s";
}

// span writes microseconds as a length of time of any length, in two units: "13 h 5 min", "9.42 s".
export function span(microseconds) {
  if (microseconds < 100e6) return seconds(microseconds);
  const minutes = Math.ceil(microseconds / 60e6);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} days ${Math.floor((minutes % 1440) / 60)} h`;
}

// length writes microseconds as a round length of time: "5 s", "200 ms".
export function length(microseconds) {
  if (microseconds >= 60e6 && microseconds % 60e6 === 0) return microseconds / 60e6 + " min";
  if (microseconds >= 1e6) return Math.round(microseconds / 1e4) / 100 + " s";
  return Math.round(microseconds / 10) / 100 + " ms";
}
