// A hot key, with leases or without.

import { write } from "./svg.js";

// lease runs two seconds of traffic when the form is sent, and shows what came of it.
export function lease(section) {
  const form = section.querySelector('[data-role="lease"]');
  const said = section.querySelector('[data-role="lease-said"]');
  const button = section.querySelector('[data-role="lease-run"]');
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    write(said, "Three servers ask for two seconds …");
    try {
      const response = await fetch("/leases", { method: "POST", body: JSON.stringify({ leased: form.elements.leased.checked }) });
      const told = await response.json();
      if (response.ok) show(section, said, told);
      else write(said, told.error);
    } catch {
      write(said, "The server does not answer.");
    }
    button.disabled = false;
  });
}

function show(section, said, run) {
  const number = (n) => n.toLocaleString("en");
  const cells = section.querySelectorAll(`tr[data-leased="${run.leased}"] td`);
  write(cells[0], `${number(run.admitted)} of ${number(run.asked)}`);
  write(cells[1], number(run.calls));
  write(cells[2], run.median < 1 ? "< 1 µs" : `${number(Math.round(run.median))} µs`);
  write(said, run.leased
    ? `${number(run.fromLeases)} of ${number(run.asked)} were decided without the store; ${number(run.returned)} leased units were given back.`
    : `Each of the ${number(run.asked)} was asked of the store.`);
}
