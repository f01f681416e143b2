// The comparison: a chart for each algorithm, one below the other.

import { draw, length, set, write } from "./svg.js";

const width = 1000, middle = 34, height = 64;
const columns = 70; // of a chart

export class Comparison {
  constructor(section, page) {
    this.section = section;
    this.part = (role, within = section) => within.querySelector(`[data-role="${role}"]`);
    this.form = this.part("compare");
    this.lanes = [...section.querySelectorAll(".lane[data-algorithm]")].map((element) => new Lane(element));
    this.byName = new Map(this.lanes.map((lane) => [lane.name, lane]));
    this.run = null;
    this.form.elements.pattern.addEventListener("change", () => this.explain());
    this.form.addEventListener("input", () => this.explain());
    this.form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const { pattern, capacity, window: seconds } = this.form.elements;
      this.complain(await page.post("/comparison", {
        pattern: pattern.value, capacity: capacity.value.trim(), window: seconds.value.trim(), framework: page.framework(),
      }));
    });
    this.part("stop").addEventListener("click", () => page.post("/comparison", undefined, "DELETE"));
    this.explain();
    this.clear();
  }

  // reset restores the fields.
  reset() {
    this.form.reset();
    this.explain();
  }

  explain() {
    this.say(this.form.elements.pattern.selectedOptions[0].dataset.about, "");
    for (const field of ["pattern", "capacity", "window"]) this.form.elements[field].setAttribute("aria-invalid", "false");
  }

  // say writes into the line that describes the fields, which stays the same element.
  say(text, kind) {
    const line = this.part("pattern-about");
    line.className = kind;
    write(line, text);
  }

  complain(problem) {
    this.explain();
    if (!problem) return;
    this.say(problem.error, "problem");
    const field = this.form.elements[problem.field];
    field?.setAttribute("aria-invalid", "true");
    field?.focus();
  }

  clear() {
    this.run = null;
    for (const lane of this.lanes) lane.begin(9e6);
    this.axis(9e6);
    this.busy(false);
  }

  busy(running) {
    this.section.dataset.running = running;
    const stop = this.part("stop");
    if (!running && document.activeElement === stop) this.part("run").focus();
    stop.disabled = !running;
  }

  // render draws what a frame says about the comparison.
  render(frame) {
    if (frame.runId === 0) {
      if (this.run) this.clear();
      return;
    }
    if (frame.run) this.take(frame.run);
    if (!this.run) return;
    const now = Math.min(1, (frame.clock - this.run.started) / this.run.length);
    for (const lane of this.lanes) lane.now(this.run.done ? null : now);
  }

  take(run) {
    if (run.whole) { // of a new run, or all over again on a new stream
      for (const lane of this.lanes) lane.begin(run.length);
      this.axis(run.length);
      write(this.part("most-head"), `most in ${length(run.window)}`);
    }
    this.run = run;
    for (const point of run.points) this.lanes[point.lane].add(point);
    const tallest = Math.max(4, ...this.lanes.map((lane) => lane.tallest));
    for (const lane of run.lanes) this.byName.get(lane.algorithm).show(lane, run, tallest);
    this.section.dataset.done = run.done;
    this.busy(!run.done);
    if (run.problem) this.complain({ error: run.problem });
  }

  axis(run) {
    const axis = this.part("axis");
    axis.replaceChildren();
    const step = run > 12e6 ? 3e6 : run > 5e6 ? 1e6 : 5e5;
    for (let at = 0; at <= run; at += step) {
      const mark = document.createElement("span");
      mark.textContent = at === 0 ? "0" : length(at);
      mark.style.left = `${(100 * at) / run}%`;
      if (run - at < step / 3) mark.className = "last";
      axis.append(mark);
    }
  }
}

class Lane {
  constructor(element) {
    this.name = element.dataset.algorithm;
    this.title = element.querySelector(".name").textContent;
    this.element = element;
    this.part = (role) => element.querySelector(`[data-role="${role}"]`);
  }

  begin(run) {
    this.length = run;
    this.columns = new Map();
    this.tallest = 0;
    const svg = this.part("chart");
    svg.replaceChildren();
    this.excess = draw(svg, "rect", { class: "excess", y: 0, height, x: 0, width: 0 });
    this.bars = draw(svg, "g");
    draw(svg, "line", { class: "axis", x1: 0, x2: width, y1: middle, y2: middle });
    this.cursor = draw(svg, "line", { class: "cursor", y1: 0, y2: height, x1: 0, x2: 0, visibility: "hidden" });
    svg.setAttribute("aria-label", `${this.title}: nothing sent yet`);
    for (const role of ["admitted", "refused", "most"]) write(this.part(role).firstElementChild, "–");
    delete this.part("most").dataset.exceeded;
  }

  add(point) {
    const at = point.passed;
    const index = Math.min(columns - 1, Math.floor((columns * at) / this.length));
    let column = this.columns.get(index);
    if (!column) {
      const x = (index * width) / columns + 1;
      column = {
        admitted: 0, refused: 0, unchecked: 0,
        up: draw(this.bars, "rect", { class: "up", x, width: width / columns - 2, y: middle, height: 0 }),
        open: draw(this.bars, "rect", { class: "open", x: x + 1, width: width / columns - 4, y: middle, height: 0 }),
        down: draw(this.bars, "rect", { class: "down", x, width: width / columns - 2, y: middle, height: 0 }),
      };
      this.columns.set(index, column);
    }
    column[point.unchecked ? "unchecked" : point.admitted ? "admitted" : "refused"]++;
    this.tallest = Math.max(this.tallest, column.admitted + column.unchecked, column.refused);
  }

  show(lane, run, tallest) {
    const unit = (height - middle - 2) / tallest;
    for (const column of this.columns.values()) {
      set(column.up, { y: middle - column.admitted * unit, height: column.admitted * unit });
      set(column.open, { y: middle - (column.admitted + column.unchecked) * unit, height: column.unchecked * unit });
      set(column.down, { height: column.refused * unit });
    }
    const exceeded = lane.most > run.most;
    set(this.excess, { x: exceeded ? (width * lane.from) / run.length : 0, width: exceeded ? (width * run.window) / run.length : 0 });
    write(this.part("admitted").firstElementChild, String(lane.admitted));
    write(this.part("refused").firstElementChild, String(lane.refused));
    write(this.part("most").firstElementChild, String(lane.most));
    this.part("most").dataset.exceeded = exceeded;
    set(this.part("chart"), {
      "aria-label": `${this.title}: ${lane.admitted} admitted, ${lane.refused} refused, ${lane.unchecked ? `${lane.unchecked} let through unchecked, ` : ""}at most ${lane.most} in ${length(run.window)}`,
    });
  }

  now(share) {
    set(this.cursor, { visibility: share === null ? "hidden" : "visible", x1: (share ?? 0) * width, x2: (share ?? 0) * width });
  }
}
