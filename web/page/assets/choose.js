// Answers a form as it is changed: the new part takes the place of the last one.
import { prepare } from "./chart.js";

const form = document.getElementById("choose");
let asked = 0;

form?.addEventListener("input", async () => {
  const mine = ++asked;
  const address = form.action + "?" + new URLSearchParams(new FormData(form));
  const answer = await fetch(address);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (mine !== asked || !answer.ok) return; // it was changed again
  const now = page.getElementById("live");
  prepare(now);
  document.getElementById("live").replaceWith(now);
  history.replaceState(null, "", address);
});
