// The cards, and their rows in the overview.

import { pictures } from "./pictures.js";
import { draw, seconds, set, write } from "./svg.js";

const shownAnswers = 20;
const stripLength = 20;

export class Card {
  constructor(element, row, page) {
    this.name = element.dataset.algorithm;
    this.title = element.querySelector("h2").textContent;
    this.element = element;
    this.part = (role) => element.querySelector(`[data-role="${role}"]`);
    this.rowPart = (role) => row.querySelector(`[data-role="${role}"]`);
    this.limit = null;
    this.waiting = 0;
    for (const button of element.querySelectorAll('[data-role="send"]')) {
      button.addEventListener("click", () => page.send(this.name, Number(button.dataset.count)));
    }
    this.form = this.part("limit");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.configure(page);
    });
    this.form.addEventListener("input", () => this.complain(null));
  }

  async configure(page) {
    const { capacity, pace } = this.form.elements;
    const problem = await page.post(`/limits/${this.name}`, { capacity: capacity.value, pace: pace.value });
    this.complain(problem);
    if (problem) this.form.elements[problem.field]?.focus();
  }

  // complain says what is wrong with the configuration, in the place of the code.
  complain(problem) {
    for (const field of ["capacity", "pace"]) {
      this.form.elements[field].setAttribute("aria-invalid", String(problem?.field === field));
    }
    const said = this.part("said");
    const line = document.createElement(problem ? "span" : "code");
    line.className = problem ? "problem" : "";
    line.textContent = problem ? problem.error : (this.limit?.code ?? "");
    said.replaceChildren(line);
  }

  // begin starts afresh with a limit.
  begin(limit) {
    this.limit = limit;
    this.newest = null;
    this.burst = { press: 0 };
    write(this.part("burst"), "");
    write(this.rowPart("burst"), "–");
    this.rowPart("burst").dataset.unchecked = false;
    this.form.elements.capacity.value = limit.capacity;
    this.form.elements.pace.value = limit.pace;
    this.complain(null);
    const svg = this.part("picture");
    svg.replaceChildren();
    this.update = pictures[this.name](svg, limit, this.name);
    this.part("log").replaceChildren();
    this.rowPart("strip").replaceChildren();
    for (const role of ["status", "answer-remaining", "retry", "delay"]) write(this.part(role), "–");
    delete this.part("status").dataset.status;
    write(this.part("headers"), "No request yet.");
  }

  // render draws what a frame says about the card.
  render(frame) {
    if (frame.limit) this.begin(frame.limit);
    this.waiting = frame.waiting;
    const state = frame.state;
    if (!state || !this.limit) return;
    this.update(state, this);
    this.element.dataset.verified = state.verified;
    const passes = state.remaining > 0;
    const verdict = this.part("verdict");
    verdict.dataset.verdict = passes ? "passes" : "refuses";
    write(verdict, passes ? "passes" : "refuses");
    const when = passes ? "now" : `in ${seconds(state.next)}`;
    for (const part of [this.part("when"), this.rowPart("when")]) {
      write(part, when);
      part.dataset.verdict = passes ? "passes" : "refuses";
    }
    for (const part of [this.part("remaining"), this.rowPart("remaining")]) write(part, `${state.remaining} of ${this.limit.capacity}`);
    write(this.part("fresh"), state.reset > 0 ? `in ${seconds(state.reset)}` : "now");
    this.rowPart("meter").style.setProperty("--share", (state.remaining / this.limit.capacity).toFixed(3));
  }

  // take shows the answer to a request: in the log in the order in which requests were decided,
  // and as the last answer unless one that was decided later is shown there. One that was held
  // back comes late, and is the last answer all the same.
  take(answer) {
    const outcome = outcomeOf(answer);
    this.count(answer, outcome);
    this.list(answer, outcome);
    const newest = !this.newest || inOrder(this.newest, answer) < 0;
    if (newest) this.newest = answer;
    if (newest || outcome === "held") this.show(answer, outcome);
    if (outcome === "refused") {
      this.element.classList.remove("refusing");
      void this.element.offsetWidth; // begins the animation again
      this.element.classList.add("refusing");
    }
  }

  // count tells how many of the last click's requests have passed.
  count(answer, outcome) {
    if (answer.press < this.burst.press) return;
    if (answer.press > this.burst.press) this.burst = { press: answer.press, passed: 0, unchecked: 0 };
    if (outcome === "admitted" || outcome === "held") this.burst.passed++;
    if (outcome === "unchecked") this.burst.unchecked++;
    const { passed, unchecked } = this.burst;
    write(this.rowPart("burst"), unchecked ? "unchecked" : `${passed} of ${answer.of}`);
    this.rowPart("burst").dataset.unchecked = unchecked > 0;
    write(this.part("burst"), `Last click: ${unchecked ? `${passed} passed, ${unchecked} unchecked` : `${passed} of ${answer.of} passed`}`);
  }

  // show shows an answer in full.
  show(answer, outcome) {
    const status = this.part("status");
    write(status, answer.status ? String(answer.status) : "none");
    status.dataset.status = outcome;
    write(this.part("answer-remaining"), answer.decided ? String(answer.remaining) : "–");
    write(this.part("retry"), answer.decided ? (answer.retryAfter > 0 ? seconds(answer.retryAfter, 3) : "0") : "–");
    write(this.part("delay"), answer.decided ? (answer.delay > 0 ? seconds(answer.delay, 3) : "0") : "–");
    write(this.part("headers"), [answer.line, ...(answer.headers ?? []).map(([name, value]) => `${name}: ${value}`), "", answer.body].join("\n").trim());
  }

  // list puts an answer into the log, newest first, and a mark for it into the overview, newest last.
  list(answer, outcome) {
    const item = document.createElement("li");
    item.dataset.status = outcome;
    item.answer = answer;
    for (const text of [seconds(answer.at, 3), answer.status || "none", `${answer.decided ? answer.remaining : "?"} left`, remark(answer)]) {
      const cell = document.createElement("span");
      cell.textContent = text;
      item.append(cell);
    }
    const log = this.part("log");
    log.insertBefore(item, [...log.children].find((other) => inOrder(other.answer, answer) < 0) ?? null);
    while (log.children.length > shownAnswers) log.lastElementChild.remove();

    const strip = this.rowPart("strip");
    const mark = document.createElement("span");
    mark.className = `mark ${outcome}`;
    mark.title = `${answer.status} at ${seconds(answer.at, 3)}`;
    mark.answer = answer;
    strip.insertBefore(mark, [...strip.children].find((other) => inOrder(other.answer, answer) > 0) ?? null);
    while (strip.children.length > stripLength) strip.firstElementChild.remove();
  }
}

// inOrder compares two answers by when their requests were decided, as the server does.
export function inOrder(a, b) {
  return a.at - b.at || a.rank - b.rank || a.number - b.number;
}

export function outcomeOf(answer) {
  if (answer.status === 429 || answer.status === 403) return "refused";
  if (answer.status !== 200) return "failed";
  if (!answer.decided) return "unchecked";
  return answer.delay > 0 ? "held" : "admitted";
}

function remark(answer) {
  if (answer.status === 0) return "gave up";
  if (!answer.decided) return answer.status === 200 ? "unchecked" : "not decided";
  if (answer.status === 429) return `retry ${seconds(answer.retryAfter, 3)}`;
  if (answer.delay > 0) return `held ${seconds(answer.delay, 3)}`;
  return "at once";
}
