// Keeps a view up to date: at each tick of the server the page is fetched again,
// and the part that is marked as live replaced.
import { prepare } from "./chart.js";

const fresh = document.getElementById("fresh");
const outOfDate = "Gleaner does not answer: what is shown may be out of date.";
const every = 2000; // milliseconds, as the server ticks
let busy = false;

async function refresh() {
  const old = document.getElementById("live");
  if (busy || document.hidden || used(old)) return;
  busy = true;
  try {
    const answer = await fetch(location.href);
    if (answer.status === 401) {
      fresh.textContent = "You are logged out: load this page again to see how to log in.";
      return;
    }
    if (!answer.ok) throw new Error(answer.statusText);
    const now = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
    if (used(old)) return; // meanwhile
    replace(old, now);
    fresh.textContent = "This view is kept up to date.";
  } catch {
    fresh.textContent = outOfDate;
  } finally {
    busy = false;
  }
}

// used tells whether text of a part is being selected, or a range of a chart: it stays until that is done.
function used(part) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && part.contains(selection.anchorNode) || part.querySelector(".chosen");
}

// replace puts a new part in the place of the old one. What was open stays open, what was
// scrolled stays where it is, and the focus stays on the same thing.
function replace(old, now) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const nth = focused && like(focused, old).indexOf(focused);
  const open = [...old.querySelectorAll("details")].map((d) => d.open);
  const scrolled = [...old.querySelectorAll(".scroll")].map((s) => [s.scrollLeft, s.scrollTop]);
  prepare(now);
  old.replaceWith(now);
  [...now.querySelectorAll("details")].forEach((d, i) => { d.open = open[i] ?? false; });
  [...now.querySelectorAll(".scroll")].forEach((s, i) => { if (scrolled[i]) [s.scrollLeft, s.scrollTop] = scrolled[i]; });
  if (focused) like(focused, now)[nth]?.focus({ preventScroll: true });
}

// like finds what can have the focus in a part and has the name of a thing: others may have come or gone before it.
function like(thing, part) {
  const name = (e) => e.getAttribute("href") ?? e.getAttribute("aria-label") ?? e.textContent;
  return [...part.querySelectorAll("a, summary, [tabindex]")].filter((e) => name(e) === name(thing));
}

// One tab that is seen listens and tells the others: a browser has few connections to a host, and
// listening keeps one.
const others = new BroadcastChannel("ticks");
others.addEventListener("message", (m) => hear(m.data));

function hear(what) {
  if (what === "tick") refresh();
  else fresh.textContent = outOfDate;
}

// listen is done when the tab is hidden, or some time after the server has refused it.
function listen() {
  return new Promise((done) => {
    if (document.hidden) return done();
    const events = new EventSource("/events");
    const tell = (e) => { others.postMessage(e.type); hear(e.type); };
    events.addEventListener("tick", tell);
    events.addEventListener("error", (e) => {
      tell(e);
      if (events.readyState === EventSource.CLOSED) setTimeout(done, every);
    });
    document.addEventListener("visibilitychange", () => { events.close(); done(); }, { once: true });
  });
}

function seen() {
  return new Promise((done) => {
    if (!document.hidden) return done();
    document.addEventListener("visibilitychange", done, { once: true });
  });
}

// Browsers have locks only where there is TLS or the server is on this machine; elsewhere each tab asks by itself.
if (navigator.locks) {
  for (;;) {
    await seen();
    await navigator.locks.request("ticks", listen);
  }
} else {
  setInterval(refresh, every);
}
