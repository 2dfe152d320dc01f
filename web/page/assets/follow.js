// Follows the output of a task that runs. A hidden tab does not, because a browser has few
// connections to a host; when it is seen again it goes on where it was.
const log = document.querySelector("[data-follow]");
const note = document.getElementById("following");
const address = new URL(log.dataset.follow, location.href);
const decoder = new TextDecoder();
let offset = Number(address.searchParams.get("offset"));
let ended = false;
let stop = new AbortController();

async function follow(signal) {
  address.searchParams.set("offset", offset);
  const answer = await fetch(address, { signal });
  if (!answer.ok) throw new Error(answer.statusText);
  note.textContent = "It still runs; what it writes appears here.";
  const output = answer.body.getReader();
  for (let part = await output.read(); !part.done; part = await output.read()) {
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    offset += part.value.length;
    log.append(decoder.decode(part.value, { stream: true }));
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
  ended = true;
  note.textContent = "This run has ended.";
}

function look() {
  stop.abort();
  if (document.hidden || ended) return;
  stop = new AbortController();
  const { signal } = stop;
  follow(signal).catch(() => { if (!signal.aborted) note.textContent = "The output was cut off. Reload the page to see more."; });
}

document.addEventListener("visibilitychange", look);
look();
