// One picture for each algorithm. A picture is made for a limit and returns a
// function that draws a state, exactly as the server has sent it. Nothing in here
// keeps time: between two frames nothing moves.

import { draw, length, seconds, set, show, write } from "./svg.js";

const caption = (svg) => draw(svg, "text", { class: "caption", x: 160, y: 142 });

// grid places n things in rows of at most ten.
function grid(n, left, top, width, height) {
  const columns = Math.min(n, 10);
  const rows = Math.ceil(n / columns);
  const w = width / columns;
  const h = height / rows;
  return Array.from({ length: n }, (_, i) => ({
    x: left + (i % columns) * w, y: top + Math.floor(i / columns) * h, w, h,
  }));
}

function fixedWindow(svg, limit) {
  const slots = grid(limit.capacity, 12, 14, 296, 76).map(({ x, y, w, h }) =>
    draw(svg, "rect", { class: "slot", x: x + 3, y: y + 3, width: w - 6, height: h - 6, rx: Math.min(6, h / 5) }));
  draw(svg, "rect", { class: "track", x: 15, y: 104, width: 290, height: 10, rx: 5 });
  const bar = draw(svg, "rect", { class: "time", x: 15, y: 104, width: 0, height: 10, rx: 5 });
  const text = caption(svg);
  return (state) => {
    const used = limit.capacity - state.remaining;
    slots.forEach((slot, i) => set(slot, { class: i < used ? "slot taken" : "slot" }));
    set(bar, { width: (290 * state.reset) / limit.period });
    write(text, state.reset > 0 ? `the window closes in ${seconds(state.reset)}` : "no window is open: the next request opens one");
  };
}

function slidingLog(svg, limit) {
  const left = 18, right = 296, base = 104;
  draw(svg, "rect", { class: "reach", x: left, y: 20, width: right - left, height: base - 20, rx: 4 });
  draw(svg, "line", { class: "axis", x1: left - 8, y1: base, x2: right + 8, y2: base });
  draw(svg, "line", { class: "mark", x1: left, y1: 20, x2: left, y2: base + 6 });
  draw(svg, "line", { class: "mark", x1: right, y1: 20, x2: right, y2: base + 6 });
  draw(svg, "text", { class: "label", x: left, y: base + 18, "text-anchor": "start" }, `${length(limit.period)} ago`);
  draw(svg, "text", { class: "label", x: right, y: base + 18, "text-anchor": "end" }, "now");
  const dots = Array.from({ length: limit.capacity }, () => draw(svg, "circle", { class: "dot", r: 5.5, visibility: "hidden" }));
  const text = caption(svg);
  return (state) => {
    const waits = state.left ?? [];
    const places = waits.map((wait) => left + ((right - left) * Math.max(0, wait)) / limit.period);
    // Dots closer than their width stand on each other, as close as they have to.
    const levels = [];
    places.forEach((x, i) => levels.push(i > 0 && x - places[i - 1] < 9 ? levels[i - 1] + 1 : 0));
    const step = Math.min(12.5, 70 / Math.max(1, ...levels));
    dots.forEach((dot, i) => {
      show(dot, i < places.length);
      if (i < places.length) set(dot, { cx: places[i], cy: base - 8 - levels[i] * step });
    });
    const used = limit.capacity - state.remaining;
    write(text, used === 0 ? `none of ${limit.capacity} in the last ${length(limit.period)}`
      : `${used} of ${limit.capacity} in the last ${length(limit.period)}, the oldest leaves in ${seconds(state.next)}`);
  };
}

function slidingWindow(svg, limit) {
  const left = 20, width = 140, top = 24, base = 86;
  const scale = (count) => ((base - top - 6) * count) / limit.capacity;
  const bars = ["faint", "strong"].map((shade) => [0, 1].map((i) =>
    draw(svg, "rect", { class: `bar ${shade}`, x: left + i * width, width, y: base, height: 0 })));
  for (const x of [left, left + width, left + 2 * width]) draw(svg, "line", { class: "mark", x1: x, y1: top, x2: x, y2: base + 6 });
  draw(svg, "line", { class: "axis", x1: left - 8, y1: base, x2: left + 2 * width + 8, y2: base });
  draw(svg, "text", { class: "label", x: left + width / 2, y: base + 16 }, "last window");
  draw(svg, "text", { class: "label", x: left + 1.5 * width, y: base + 16 }, "this window");
  const frame = draw(svg, "rect", { class: "frame", x: left, y: top - 8, width, height: base - top + 8, rx: 4 });
  const frameLabel = draw(svg, "text", { class: "label", y: 11 }, `the last ${length(limit.period)}`);
  const formula = draw(svg, "text", { class: "formula", x: 160, y: 125 });
  const text = caption(svg);
  return (state) => {
    const { current, previous, left: remaining } = state.counters;
    const share = remaining / limit.period;
    const edge = left + (1 - share) * width;
    set(frame, { x: edge });
    set(frameLabel, { x: edge + width / 2 });
    const heights = [scale(previous), scale(current)];
    bars[0].forEach((bar, i) => set(bar, { y: base - heights[i], height: heights[i] }));
    set(bars[1][0], { x: edge, width: left + width - edge, y: base - heights[0], height: heights[0] });
    set(bars[1][1], { width: (1 - share) * width, y: base - heights[1], height: heights[1] });
    // The sum is rounded up: with any fraction above the limit a request does not fit.
    const sum = Math.ceil((current + previous * share) * 1000 - 1e-6) / 1000;
    write(formula, `${previous} × ${share.toFixed(3)} + ${current} = ${sum.toFixed(3)}`);
    write(text, `one more is ${state.remaining > 0 ? "not above" : "above"} ${limit.capacity}: ${state.remaining > 0 ? "it passes" : "refused"}`);
  };
}

function tokenBucket(svg, limit) {
  draw(svg, "path", { class: "vessel", d: "M46 12 V108 Q46 116 54 116 H266 Q274 116 274 108 V12" });
  const cells = grid(limit.capacity, 54, 18, 212, 92);
  const r = Math.min(17, cells[0].w / 2 - 2, cells[0].h / 2 - 2);
  const tokens = cells.map(({ x, y, w, h }) => {
    const at = { cx: x + w / 2, cy: y + h / 2 };
    draw(svg, "circle", { class: "hollow", r, ...at });
    const pie = draw(svg, "circle", { class: "pie", r: r / 2, "stroke-width": r, pathLength: 100, transform: `rotate(-90 ${at.cx} ${at.cy})`, ...at });
    return { pie };
  });
  const text = caption(svg);
  return (state) => {
    const there = limit.capacity - state.level;
    tokens.forEach(({ pie }, i) => {
      const share = Math.min(1, Math.max(0, there - i));
      set(pie, { "stroke-dasharray": share >= 0.9999 ? "none" : `${(share * 100).toFixed(1)} 100`, class: i < state.remaining ? "pie whole" : "pie" });
      show(pie, share > 0.001);
    });
    const count = (Math.floor(there * 100 + 1e-6) / 100).toFixed(2);
    write(text, state.reset > 0 ? `${count} tokens, the next in ${seconds(state.next)}` : `${limit.capacity} tokens: the bucket is full`);
  };
}

function leaky(svg, limit, id) {
  const top = 18, bottom = 102;
  const shape = `M98 ${top} L110 ${bottom} H210 L222 ${top} Z`;
  draw(draw(draw(svg, "defs"), "clipPath", { id: `${id}-vessel` }), "path", { d: shape });
  const water = draw(svg, "rect", { class: "water", x: 90, width: 140, y: bottom, height: 0, "clip-path": `url(#${id}-vessel)` });
  const surface = draw(svg, "line", { class: "surface", "clip-path": `url(#${id}-vessel)`, x1: 90, x2: 230, y1: bottom, y2: bottom });
  draw(svg, "path", { class: "vessel", d: `M98 ${top} L110 ${bottom} H154 M166 ${bottom} H210 L222 ${top}` });
  if (limit.capacity <= 20) {
    for (let i = 1; i < limit.capacity; i++) {
      const y = bottom - ((bottom - top) * i) / limit.capacity;
      draw(svg, "line", { class: "mark", x1: 230, x2: 237, y1: y, y2: y });
    }
  }
  draw(svg, "line", { class: "mark", x1: 226, x2: 241, y1: top, y2: top });
  draw(svg, "text", { class: "label", x: 246, y: top + 4, "text-anchor": "start" }, `full: ${limit.capacity}`);
  const level = draw(svg, "text", { class: "figure", x: 82, "text-anchor": "end" });
  const drop = draw(svg, "path", { class: "drop", d: "M0 -6 C3 -2 4.5 0 4.5 2.5 A4.5 4.5 0 0 1 -4.5 2.5 C-4.5 0 -3 -2 0 -6 Z" });
  draw(svg, "path", { class: "splash", d: "M92 12 q-8 -8 -14 0 M228 12 q8 -8 14 0 M96 6 q-3 -6 -9 -5 M224 6 q3 -6 9 -5" });
  const text = draw(svg, "text", { class: "caption", x: 160, y: 145 });
  return (state) => {
    const y = bottom - ((bottom - top) * state.level) / limit.capacity;
    set(water, { y, height: bottom - y });
    set(surface, { y1: y, y2: y });
    show(surface, state.level > 0);
    set(level, { y: Math.min(bottom, Math.max(top + 8, y + 4)) });
    write(level, (Math.ceil(state.level * 100 - 1e-6) / 100).toFixed(2));
    // The drop is how much of a cup has leaked since the level was a whole number.
    const leaked = Math.ceil(state.level) - state.level;
    set(drop, { transform: `translate(160 ${109 + 17 * leaked}) scale(${0.5 + 0.5 * leaked})` });
    show(drop, state.level > 0);
    write(text, state.reset > 0 ? `empty in ${seconds(state.reset)}` : "the bucket is empty");
  };
}

function shaping(svg, limit) {
  const gate = 268, far = 24, lane = 78;
  const turn = limit.period / limit.events;
  const place = (wait) => gate - 16 - ((gate - 16 - far) * wait) / (turn * Math.max(1, limit.capacity - 1));
  draw(svg, "line", { class: "axis", x1: far - 12, x2: gate, y1: lane + 20, y2: lane + 20 });
  if (limit.capacity <= 20) {
    for (let i = 0; i < limit.capacity; i++) draw(svg, "line", { class: "mark", x1: place(i * turn), x2: place(i * turn), y1: lane + 20, y2: lane + 26 });
  }
  draw(svg, "path", { class: "gate", d: `M${gate} 34 V${lane + 30}` });
  draw(svg, "text", { class: "label", x: gate, y: 26 }, `one each ${length(turn)}`);
  const r = Math.min(14, Math.max(3, (gate - far) / limit.capacity / 2 - 1));
  const spots = Array.from({ length: limit.capacity }, () => ({
    dot: draw(svg, "circle", { class: "dot waiting", r, cy: lane, visibility: "hidden" }),
    label: draw(svg, "text", { class: "label", y: lane - r - 7, visibility: "hidden" }),
  }));
  const served = draw(svg, "circle", { class: "hollow", r: 14, cx: gate + 24, cy: lane });
  const progress = draw(svg, "circle", { class: "served", r: 7, "stroke-width": 14, pathLength: 100, cx: gate + 24, cy: lane, transform: `rotate(-90 ${gate + 24} ${lane})` });
  const text = caption(svg);
  return (state, card) => {
    // The queue is served without a break, so its turns begin one after the other,
    // the last of them one turn before all is done.
    const waits = [];
    for (let wait = state.reset - turn; wait > 0 && waits.length < limit.capacity; wait -= turn) waits.unshift(wait);
    spots.forEach(({ dot, label }, i) => {
      const there = i < waits.length;
      show(dot, there);
      show(label, there && limit.capacity <= 6);
      if (!there) return;
      set(dot, { cx: place(waits[i]) });
      set(label, { x: place(waits[i]) });
      write(label, seconds(waits[i], 1));
    });
    const left = state.reset - waits.length * turn;
    show(progress, state.reset > 0);
    set(progress, { "stroke-dasharray": `${((100 * left) / turn).toFixed(1)} 100` });
    set(served, { class: state.reset > 0 ? "hollow lit" : "hollow" });
    const held = card.waiting === 1 ? "1 request is held" : `${card.waiting} requests are held`;
    write(text, state.reset > 0 ? `${held}, all served in ${seconds(state.reset)}` : "nobody waits: the next one passes at once");
  };
}

function gcra(svg, limit) {
  const left = 26, line = 84;
  const emission = limit.period / limit.events;
  const place = (after) => left + (262 * after) / (emission * limit.capacity);
  const tolerance = emission * (limit.capacity - 1);
  draw(svg, "rect", { class: "room", x: left, y: line - 26, width: place(tolerance) - left, height: 26 });
  draw(svg, "rect", { class: "beyond", x: place(tolerance), y: line - 26, width: place(tolerance + emission) - place(tolerance), height: 26 });
  draw(svg, "line", { class: "axis", x1: left - 10, x2: 306, y1: line, y2: line });
  if (limit.capacity <= 20) {
    for (let i = 0; i <= limit.capacity; i++) draw(svg, "line", { class: "mark", x1: place(i * emission), x2: place(i * emission), y1: line, y2: line + 5 });
  }
  draw(svg, "line", { class: "now", x1: left, x2: left, y1: line - 34, y2: line + 10 });
  draw(svg, "text", { class: "label", x: left, y: line + 22 }, "now");
  draw(svg, "text", { class: "label", x: place(tolerance), y: line + 22 }, tolerance > 0 ? `+ ${length(tolerance)}` : "");
  const arrival = draw(svg, "g", { class: "arrival" });
  draw(arrival, "line", { x1: 0, x2: 0, y1: line - 36, y2: line });
  draw(arrival, "path", { d: `M-6 ${line - 44} H6 L0 ${line - 34} Z` });
  const label = draw(svg, "text", { class: "figure", y: line - 52 });
  const text = caption(svg);
  return (state) => {
    const x = place(state.reset);
    set(arrival, { transform: `translate(${Math.round(x * 100) / 100} 0)`, class: state.remaining > 0 ? "arrival" : "arrival late" });
    set(label, { x: Math.min(262, Math.max(58, x)) });
    write(label, state.reset > 0 ? `now + ${seconds(state.reset)}` : "not after now");
    write(text, state.remaining > 0 ? `not later than now + ${length(tolerance)}: a request passes` : `later than now + ${length(tolerance)}: refused for ${seconds(state.next)}`);
  };
}

export const pictures = {
  "fixed-window": fixedWindow,
  "sliding-log": slidingLog,
  "sliding-window": slidingWindow,
  "token-bucket": tokenBucket,
  leaky,
  shaping,
  gcra,
};
