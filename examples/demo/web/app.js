// The page: a stream of what the server says, and buttons that ask it for something.

import { Card, outcomeOf } from "./cards.js";
import { Comparison } from "./compare.js";
import { lease } from "./leases.js";
import { Quota } from "./quotas.js";
import { write } from "./svg.js";

const part = (role) => document.querySelector(`[data-role="${role}"]`);

const page = {
  framework: () => document.querySelector('input[name="framework"]:checked').value,

  // post asks the server for something, and returns what is wrong with it, or null.
  async post(path, body, method = "POST") {
    let problem;
    try {
      const response = await fetch(path, { method, body: body && JSON.stringify(body) });
      problem = response.ok ? null : await response.json();
    } catch {
      problem = { error: "the server does not answer" };
    }
    trouble("post", problem && !problem.field ? problem.error : "");
    return problem;
  },

  send: (algorithm, count, way = "") => page.post("/requests", { algorithm, way, count, framework: page.framework() }),
};

const troubles = new Map();

// trouble shows what is wrong from one cause, or no longer.
function trouble(cause, text) {
  if ((troubles.get(cause) ?? "") === text) return;
  troubles.set(cause, text);
  const all = [...troubles.values()].filter(Boolean).join("; ");
  part("trouble").hidden = all === "";
  write(part("trouble"), all);
}

const cards = new Map([...document.querySelectorAll("article[data-algorithm]")].map((element) => {
  const row = document.querySelector(`.overview tr[data-algorithm="${element.dataset.algorithm}"]`);
  return [element.dataset.algorithm, new Card(element, row, page)];
}));
const quotas = new Map([...document.querySelectorAll("article[data-quota]")].map((element) => {
  const line = document.querySelector(`.summary tr[data-quota="${element.dataset.quota}"]`);
  return [element.dataset.quota, new Quota(element, line, page)];
}));
const comparison = new Comparison(document.querySelector(".compare"), page);
lease(document.querySelector("#leases"));

for (const button of document.querySelectorAll('.lead [data-role="send"]')) {
  button.addEventListener("click", () => page.send("all", Number(button.dataset.count)));
}
part("reset").addEventListener("click", async () => {
  if (await page.post("/reset")) return;
  comparison.reset();
  write(part("announce"), "All limits and counters are as they were at first");
});

// announce tells a screen reader what has been answered.
function announce(answers) {
  const byCard = Map.groupBy ? Map.groupBy(answers, (answer) => answer.algorithm) : new Map([[answers[0].algorithm, answers]]);
  const texts = [];
  for (const [algorithm, some] of byCard) {
    const count = (...outcomes) => some.filter((answer) => outcomes.includes(outcomeOf(answer))).length;
    const title = (cards.get(algorithm) ?? quotas.get(algorithm)).title;
    const unchecked = count("unchecked") ? `, ${count("unchecked")} let through unchecked` : "";
    texts.push(some.length === 1
      ? `${title}: ${some[0].status}${unchecked && ", let through unchecked"}`
      : `${title}: ${count("admitted", "held")} admitted, ${count("refused")} refused${unchecked}`);
  }
  write(part("announce"), texts.join(". "));
}

// With reduced motion the pictures move twice a second, in steps. What has been
// answered is shown at once all the same.
const reduced = matchMedia("(prefers-reduced-motion: reduce)");
let drawn = -Infinity;

function render(frame) {
  const answers = [...(frame.answers ?? []), ...(frame.quotas ?? []).flatMap((quota) => quota.answers ?? [])];
  const news = answers.length > 0 || frame.error || frame.run || frame.cards.some((card) => card.limit);
  if (reduced.matches && !news && performance.now() - drawn < 500) return;
  drawn = performance.now();
  write(part("clock"), (frame.clock / 1e6).toFixed(reduced.matches ? 1 : 2) + " s");
  const unchecked = answers.some((answer) => outcomeOf(answer) === "unchecked");
  trouble("store", frame.error ? `the store does not answer, and requests are let through unchecked: ${frame.error}` : "");
  if (frame.error || unchecked) live("down", "no decisions");
  else live("yes", "live");
  for (const card of frame.cards) cards.get(card.algorithm).render(card);
  for (const answer of frame.answers ?? []) cards.get(answer.algorithm).take(answer);
  for (const quota of frame.quotas ?? []) quotas.get(quota.name).render(quota);
  if (answers.length) announce(answers);
  comparison.render(frame);
}

function live(state, text) {
  part("live").dataset.live = state;
  write(part("live-text"), text);
}

const stream = new EventSource("/stream");
stream.addEventListener("open", () => live("yes", "live"));
stream.addEventListener("message", (event) => render(JSON.parse(event.data)));
stream.addEventListener("error", () => {
  if (stream.readyState === EventSource.CLOSED) live("no", "not live: close another tab, and load again");
  else live("connecting", "reconnecting");
});
