// The cards of the second part: each draws its limits as rows of cells.

import { inOrder, outcomeOf } from "./cards.js";
import { span, write } from "./svg.js";

const stripLength = 20;

// What a row says about its limit, by algorithm. Cells are filled for what is left, or, where that is
// what one looks for, for what is taken.
const rows = {
  calendar: (row, of) => ({ text: `${row.remaining} of ${of} left`, when: row.reset > 0 ? `a new window in ${span(row.reset)}` : "nothing used in this window" }),
  balance: (row) => ({ text: `${row.remaining} left`, when: row.remaining > 0 ? "kept until they are spent" : "none: a top-up adds some" }),
  concurrent: (row, of) => ({ text: `${of - row.remaining} of ${of} taken`, when: row.remaining > 0 ? "there is a free place" : "free when one has ended", taken: true }),
  ban: (row, of) => ({ text: `${of - row.remaining} of ${of} strikes`, when: row.remaining > 0 ? "not banned" : `banned for ${span(row.next)}`, taken: true }),
  "token-bucket": (row, of) => ({ text: `${row.remaining} of ${of} left`, when: row.remaining === 0 ? `a token in ${span(row.next)}` : row.reset > 0 ? `full in ${span(row.reset)}` : "full" }),
};

export class Quota {
  constructor(element, line, page) {
    this.name = element.dataset.quota;
    this.title = element.querySelector("h2").textContent;
    this.element = element;
    this.part = (role) => element.querySelector(`[data-role="${role}"]`);
    this.line = line;
    this.rows = [...element.querySelectorAll(".row")].map((row) => ({
      of: Number(row.dataset.of), kept: Number(row.dataset.kept), algorithm: row.dataset.algorithm, policy: row.dataset.policy,
      cells: [...row.querySelectorAll(".cell")], part: (role) => row.querySelector(`[data-role="${role}"]`),
    }));
    for (const button of element.querySelectorAll('[data-role="send"]')) {
      button.addEventListener("click", () => page.send(this.name, Number(button.dataset.count), button.dataset.way));
    }
  }

  // render draws what a frame says about the quota.
  render(frame) {
    if (frame.fresh) this.begin();
    frame.rows?.forEach((row, i) => this.draw(this.rows[i], row));
    if (frame.rows) {
      const passes = frame.rows.some((row) => row.remaining > 0);
      const kept = this.rows[0].kept > 0 && frame.rows[0].remaining <= this.rows[0].kept;
      for (const part of [this.part("verdict"), this.line.querySelector('[data-role="verdict"]')]) {
        part.dataset.verdict = passes ? "passes" : "refuses";
        write(part, !passes ? "refuses" : kept ? "batch stops" : "passes");
      }
    }
    for (const answer of frame.answers ?? []) this.take(answer);
  }

  begin() {
    this.part("strip").replaceChildren();
    write(this.part("headers"), "No request yet.");
  }

  draw(row, state) {
    const { text, when, taken } = rows[row.algorithm](state, row.of);
    write(row.part("count"), text);
    write(row.part("when"), when);
    const filled = taken ? row.of - state.remaining : state.remaining;
    row.cells.forEach((cell, i) => {
      const fill = i < filled ? "full" : "empty";
      if (cell.dataset.fill !== fill) cell.dataset.fill = fill;
    });
  }

  // take shows an answer: as a mark in the color of the limit that was charged, in the order of decisions, and in
  // full if it is the last.
  take(answer) {
    const outcome = outcomeOf(answer);
    const mark = document.createElement("span");
    const other = outcome === "admitted" && this.rows[0].policy !== answer.policy;
    mark.className = `mark ${outcome}${other ? " other" : ""}`;
    mark.title = [answer.status || "none", answer.policy].filter(Boolean).join(", ");
    const strip = this.part("strip");
    mark.answer = answer;
    strip.insertBefore(mark, [...strip.children].find((later) => inOrder(later.answer, answer) > 0) ?? null);
    while (strip.children.length > stripLength) strip.firstElementChild.remove();
    if (strip.lastElementChild !== mark) return; // one that was decided later is shown
    write(this.part("headers"), [answer.line, ...(answer.headers ?? []).map(([name, value]) => `${name}: ${value}`), "", answer.body].join("\n").trim());
  }
}
