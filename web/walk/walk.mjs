// Walks through every view of a gleaner that is up in a real browser: light and dark, on a wide and
// on a narrow window. TestPageWalk starts it:
//
//   node walk.mjs MODULES LINK PICTURES
//
// MODULES is a directory with playwright-core and axe-core, LINK a link of 'gleaner status --link', and
// PICTURES a directory for screenshots. It prints what is wrong, a line each, and ends with 1 then.
import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";

const [modules, link, pictures] = process.argv.slice(2);
const load = createRequire(modules + "/");
const { chromium } = load("playwright-core");
const axe = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");
const base = new URL(link).origin;
mkdirSync(pictures, { recursive: true });

const wrong = [];
function complain(where, what) {
  wrong.push(`${where}: ${what}`);
}

// views are all addresses, and what must be seen there.
const views = [
  ["overview", "/", "figure svg path.f0"],
  ["overview-day", "/?span=24h", ".cards"],
  ["jobs", "/jobs", "td a[href='/jobs/1']"],
  ["job", "/jobs/1", "figure svg path.f2"],
  ["tasks", "/jobs/1/tasks", "td a[href='/jobs/1/tasks/merge-0']"],
  ["task", "/jobs/1/tasks/merge-0", "pre.log"],
  ["tenants", "/tenants", "figure svg"],
  ["tenant", null, "figure svg"],
  ["slowdown", "/slowdown", "figure svg path.f0"],
  ["storage", "/storage", ".tree ul .name"],
  ["vdisk", "/storage/first", ".cards"],
  ["traces", "/traces", "a[href='/traces/job']"],
  ["trace", "/traces/job", "figure svg path.l0"],
  ["lab", "/lab", "td a[href='/lab/fig13']"],
  ["experiment", "/lab/fig13", "td.n"],
  ["plan-compared", "/plan?example=photoshare&hw=server1&against=table1", "#compared td.n"],
  ["plan-robust", "/plan/robust?example=productsearch", "#tried"],
  ["plan-own", "/plan/own", "textarea#app"],
  ["plan", "/plan?example=productsearch", "figure svg path.l0"],
];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

// watch notes errors on the console, but for answers that are meant to be refusals, and requests that leave the machine.
function watch(page, where) {
  page.on("console", (m) => { if (m.type() === "error" && !/status of (401|422)/.test(m.text())) complain(where(), `console: ${m.text()}`); });
  page.on("pageerror", (e) => complain(where(), `script: ${e}`));
  page.on("request", (r) => { if (!r.url().startsWith(base)) complain(where(), `asks for ${r.url()}`); });
}

// logIn spends the link.
async function logIn() {
  const context = await browser.newContext();
  const page = await context.newPage();
  watch(page, () => "login");
  const answer = await page.goto(link);
  if (!answer.ok() || new URL(page.url()).search !== "") complain("login", `the link led to ${page.url()}: ${answer.status()}`);
  const [cookie] = await context.cookies();
  if (!cookie?.httpOnly || cookie.sameSite !== "Strict" || cookie.path !== "/") complain("login", `cookie ${JSON.stringify({ ...cookie, value: "" })}`);
  if (await page.evaluate(() => document.cookie) !== "") complain("login", "a script can read the cookie");
  const state = await context.storageState();
  await context.close();
  return state;
}

// strange sees nothing but the login.
async function strange(_, colorScheme, width) {
  const name = `login-${colorScheme}-${width}`;
  const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 } });
  const page = await context.newPage();
  watch(page, () => name);
  for (const [, path] of views) {
    const answer = await page.goto(base + (path ?? "/tenants/x"));
    if (answer.status() !== 401) complain(name, `${path} answers ${answer.status()} to a stranger`);
    await page.waitForTimeout(500); // strangers may ask ten times a second
  }
  await check(page, name);
  await context.close();
}

// check looks for what no view may have. The page's policy lets no script in that is not its own, so axe comes through the inspector; and only
// now, when the time of the first paint is known.
async function check(page, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) complain(name, `scrolls sideways by ${wide} pixels`);
  await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
  const inspector = await page.context().newCDPSession(page);
  await inspector.send("Runtime.evaluate", { expression: axe });
  await inspector.detach();
  const found = await page.evaluate(() => axe.run());
  for (const v of found.violations) {
    if (v.impact === "serious" || v.impact === "critical") complain(name, `axe: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target).join(", ")}`);
  }
}

// walk visits all views in one kind of window.
async function walk(storageState, colorScheme, width, javaScriptEnabled) {
  const context = await browser.newContext({ storageState, colorScheme, viewport: { width, height: 900 }, javaScriptEnabled });
  const page = await context.newPage();
  let name = "before the first view";
  watch(page, () => name);
  let tenant = "";
  for (const [view, path, seen] of views) {
    name = `${view}-${colorScheme}-${width}${javaScriptEnabled ? "" : "-plain"}`;
    const answer = await page.goto(base + (path ?? tenant));
    if (!answer.ok()) { complain(name, `answers ${answer.status()}`); continue; }
    const selector = width < 800 && seen.startsWith("figure") ? seen.replace("figure", ".narrow") : seen.replace("figure", ".wide");
    await page.locator(selector).first().waitFor({ timeout: 15000 }).catch(() => complain(name, `does not show ${selector}`));
    if (view === "tenants") tenant = await page.locator("td a").first().getAttribute("href");
    if (javaScriptEnabled) await check(page, name);
    if (view === "plan") await slide(page, name, javaScriptEnabled);
  }
  await context.close();
}

// loads shows every view several times, to say how long it takes until something is seen.
async function loads(storageState) {
  const context = await browser.newContext({ storageState, viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  await page.goto(base + "/tenants"); // what a new process of the browser loads is not the time of the first view
  const tenant = await page.locator("td a").first().getAttribute("href");
  for (let i = 0; i < 7; i++) {
    for (const [view, path] of views) {
      await page.goto(base + (path ?? tenant));
      await painted(page, `${view}, load ${i + 1}`, view);
    }
  }
  await context.close();
}

// painted notes how long it took until something was seen, how long the server took of that, and how much was loaded.
const paints = new Map(); // by view
const heaviest = 300 * 1024; // bytes
async function painted(page, name, view) {
  const paint = await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime, undefined, { timeout: 15000 }).catch(() => null);
  if (paint === null) return complain(name, "nothing was painted");
  const [answer, weight] = await page.evaluate(() => {
    const [asked] = performance.getEntriesByType("navigation");
    const loaded = performance.getEntriesByType("resource").filter((r) => r.name.includes("/assets/"));
    return [asked.responseEnd - asked.requestStart, [asked, ...loaded].reduce((sum, r) => sum + r.encodedBodySize, 0)];
  });
  if (weight > heaviest) complain(name, `weighs ${weight} bytes`);
  paints.set(view, [...paints.get(view) ?? [], { paint: await paint.jsonValue(), answer, weight }]);
}

// tellPaints prints a line a view, the slowest first.
function tellPaints() {
  const middle = (all) => all.sort((a, b) => a - b)[all.length >> 1].toFixed(0);
  const rows = [...paints].map(([view, all]) => [view, all.map((p) => p.paint), all.map((p) => p.answer), Math.max(...all.map((p) => p.weight))]);
  for (const [view, paint, answer, weight] of rows.sort((a, b) => middle(b[1]) - middle(a[1]))) {
    console.log(`${view}: first paint after ${middle(paint)} ms (${Math.min(...paint).toFixed(0)} to ${Math.max(...paint).toFixed(0)}), of which the answer took ${middle(answer)}; ${(weight / 1024).toFixed(0)} KiB`);
  }
}

// slide moves the slider, which changes cost and configuration, with a script or with the button.
async function slide(page, name, scripted) {
  const before = await page.locator("#cost").textContent() + await page.locator("#where").textContent();
  if (scripted) {
    await page.locator("#level").focus();
    await page.keyboard.press("End");
  } else {
    await page.locator("#level").fill("24");
    await page.getByRole("button", { name: "Plan" }).click();
  }
  await page.getByRole("heading", { name: "at 100 times the SLA" }).waitFor({ timeout: 15000 }).catch(() => complain(name, "the slider changes nothing"));
  const after = await page.locator("#cost").textContent() + await page.locator("#where").textContent();
  if (before === after) complain(name, "the slider leaves cost and configuration as they were");
}

// submit submits the sample, sees it end without a reload, and cancels another.
async function submit(storageState, javaScriptEnabled) {
  const name = javaScriptEnabled ? "submit" : "submit without scripts";
  const context = await browser.newContext({ storageState, javaScriptEnabled });
  const page = await context.newPage();
  watch(page, () => name);
  await page.goto(base + "/jobs");
  await page.getByRole("button", { name: "Submit" }).click();
  await page.waitForURL(/\/jobs\/\d+$/);
  const ended = page.locator("#live > p .state", { hasText: "finished" });
  for (let i = 0; !javaScriptEnabled && i < 60 && await ended.count() === 0; i++) {
    await page.waitForTimeout(500);
    await page.reload();
  }
  await ended.waitFor({ timeout: 60000 }).catch(() => complain(name, "the job is not seen to finish"));
  await page.goto(base + "/jobs");
  await page.locator("textarea").fill("name: long\nstages: [{name: s, cpu: 0.1, memory: 32MiB, command: [sh, -c, 'for i in $(seq 600); do echo line $i ö; sleep 1; done']}]\n");
  await page.getByRole("button", { name: "Submit" }).click();
  await page.waitForURL(/\/jobs\/\d+$/);
  const job = page.url();
  if (javaScriptEnabled) {
    await page.goto(job + "/tasks/s-0");
    await page.locator("pre.log").waitFor({ timeout: 30000 }).catch(() => complain(name, "the task does not run"));
    await followed(page, name);
    await page.goto(job);
  }
  await page.getByRole("button", { name: "Cancel this job" }).click();
  for (let i = 0; i < 60 && await page.locator("#live > p .state", { hasText: "cancelled" }).count() === 0; i++) {
    await page.waitForTimeout(500);
    await page.reload();
  }
  if (await page.getByRole("button", { name: "Cancel this job" }).count() > 0) complain(name, "the job is not cancelled");
  await page.goto(base + "/jobs");
  await page.locator("textarea").fill("name: j\nowner: me\n");
  await page.getByRole("button", { name: "Submit" }).click();
  await page.locator("[role=alert]", { hasText: "owner" }).waitFor({ timeout: 5000 }).catch(() => complain(name, "a mistake is not told"));
  await context.close();
}

// crowd opens more tabs than a browser has connections to a host: all load and are kept up to date,
// and one of them listens. When that one is closed, another does.
async function crowd(storageState) {
  const context = await browser.newContext({ storageState });
  let listening = 0;
  context.on("request", (r) => { if (new URL(r.url()).pathname === "/events") listening++; });
  const tabs = [];
  for (let i = 0; i < 8; i++) {
    const page = await context.newPage();
    watch(page, () => `tab ${i}`);
    tabs.push(page);
    await page.goto(base + "/jobs", { timeout: 10000 }).catch(() => complain(`tab ${i}`, "does not load"));
  }
  const fresh = async (some, what) => {
    for (const page of some) {
      await page.evaluate(() => { document.getElementById("fresh").textContent = ""; });
    }
    for (const page of some) {
      await page.locator("#fresh", { hasText: "kept up to date" }).waitFor({ timeout: 15000 }).catch(() => complain("8 tabs", what));
    }
  };
  await fresh(tabs, "one is not kept up to date");
  if (listening !== 1) complain("8 tabs", `${listening} of them listen`);
  await tabs[0].close();
  await fresh(tabs.slice(1), "one is not kept up to date after the first was closed");
  if (listening !== 2) complain("8 tabs", `after the first was closed ${listening - 1} listen`);
  await context.close();
}

// hide makes a tab believe that it is hidden, or seen again: without a window all are seen.
function hide(page, hidden) {
  return page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}

// followed hides a tab that follows a log: it lets go of its connection, and shows each line once
// when it is seen again.
async function followed(page, name) {
  const open = new Set();
  page.on("request", (r) => { if (new URL(r.url()).pathname.endsWith("/output")) open.add(r); });
  page.on("requestfailed", (r) => open.delete(r));
  page.on("requestfinished", (r) => open.delete(r));
  await page.reload();
  const log = page.locator("pre.log");
  await log.filter({ hasText: "line 3" }).waitFor({ timeout: 30000 }).catch(() => complain(name, "the log is not followed"));
  if (open.size !== 1) complain(name, `a tab that is seen keeps ${open.size} connections`);
  await hide(page, true);
  await page.waitForTimeout(3000);
  if (open.size !== 0) complain(name, `a hidden tab keeps ${open.size} connections`);
  const before = (await log.textContent()).trim().split("\n").length;
  await hide(page, false);
  await log.filter({ hasText: `line ${before + 3}\n` }).waitFor({ timeout: 30000 }).catch(() => complain(name, "the log is not followed after the tab was hidden"));
  const lines = (await log.textContent()).trim().split("\n");
  if (lines.some((l, i) => l !== `line ${i + 1} ö`)) complain(name, `the log is ${lines.join("|")}`);
}

// boxOf is where a chart is; an update may replace it while it is looked for.
async function boxOf(chart) {
  for (let i = 0; i < 50; i++) {
    await chart.scrollIntoViewIfNeeded().catch(() => {});
    const box = await chart.boundingBox();
    if (box) return box;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error("there is no chart");
}

// hover reads values off a chart with the pointer and with keys; nothing else moves by that.
async function hover(storageState, width) {
  const name = `hover-${width}`;
  const context = await browser.newContext({ storageState, viewport: { width, height: 900 } });
  const page = await context.newPage();
  watch(page, () => name);
  await page.goto(base + "/");
  const chart = page.locator(`figure > .${width < 800 ? "narrow" : "wide"}`).first();
  const note = page.locator("figure .reading").first();
  await note.filter({ hasText: "Point at the chart" }).waitFor({ timeout: 15000 }).catch(() => complain(name, "a chart cannot be read"));
  await page.locator("#fresh", { hasText: "kept up to date" }).waitFor({ timeout: 15000 }); // the first update has come
  const before = await chart.evaluate((c) => c.closest("figure").getBoundingClientRect().height);
  const box = await boxOf(chart);
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
  const said = /^time \(UTC\) \d{4}-.* · primary: [\d.e-]+ cores · .*idle: [\d.e-]+ cores$/;
  await page.waitForTimeout(100);
  const pointed = await note.textContent();
  if (!said.test(pointed)) complain(name, `the pointer reads ${pointed}`);
  const after = await chart.evaluate((c) => c.closest("figure").getBoundingClientRect().height);
  if (before !== after) complain(name, `reading makes the chart ${after - before} pixels higher`);
  await chart.focus();
  await page.keyboard.press("Home");
  const first = await note.textContent();
  await page.keyboard.press("ArrowRight");
  const second = await note.textContent();
  if (!said.test(first) || !said.test(second) || first === second) complain(name, `keys read ${first}, then ${second}`);
  await page.waitForTimeout(5000); // two updates
  if (await page.evaluate(() => document.activeElement?.getAttribute("role")) !== "slider") complain(name, "an update takes the focus away");
  if (!said.test(await note.textContent())) complain(name, "an update takes the reading away");
  await page.screenshot({ path: `${pictures}/${name}.png` });
  await zoom(page, name, chart);
  await context.close();
}

// zoom cuts a chart to a range of time by dragging and by keys, and comes back.
async function zoom(page, name, chart) {
  const zoomed = (what) => page.waitForURL(/from=[\d.]+&to=[\d.]+/, { timeout: 15000 }).catch(() => complain(name, `${what} does not zoom`));
  const back = async (what) => {
    await page.waitForURL((u) => u.search === "", { timeout: 15000 }).catch(() => complain(name, `${what} does not lead back`));
  };
  const box = await boxOf(chart);
  await page.mouse.move(box.x + box.width * 0.3, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.8, box.y + box.height / 2, { steps: 5 });
  await page.mouse.up();
  await zoomed("dragging");
  await page.screenshot({ path: `${pictures}/${name}-zoomed.png`, fullPage: true });
  await page.getByRole("link", { name: "Show all of it" }).click();
  await back("the link");
  await chart.focus();
  await page.keyboard.press("+");
  await zoomed("+");
  await page.keyboard.press("Escape");
  await back("Escape");
}

// runs reads a run off the chart of a job and zooms into its time.
async function runs(storageState, job) {
  const name = `runs of job ${job}`;
  const context = await browser.newContext({ storageState, viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  watch(page, () => name);
  await page.goto(`${base}/jobs/${job}`);
  const chart = page.locator("figure > .wide"), note = page.locator("figure .reading");
  await page.locator("#fresh", { hasText: "kept up to date" }).waitFor({ timeout: 15000 });
  await chart.focus();
  await page.keyboard.press("Home");
  const first = await note.textContent();
  await page.keyboard.press("ArrowRight");
  const second = await note.textContent();
  const said = /^\w+-\d+ · from \d{4}-.*\.\d+ · for [\d.]+ s · \w+$/;
  if (!said.test(first) || !said.test(second) || first === second) complain(name, `keys read ${first}, then ${second}`);
  const box = await boxOf(chart);
  await page.mouse.move(box.x + box.width * 0.7, box.y + 24);
  await page.waitForTimeout(100);
  const task = await page.locator("figure tbody td").first().textContent(); // of the uppermost row
  if (!(await note.textContent()).startsWith(task)) complain(name, `the pointer on ${task} reads ${await note.textContent()}`);
  await zoom(page, name, chart);
  await context.close();
}

// age brings a view up to date hundreds of times: what it keeps does not grow.
async function age(storageState) {
  const context = await browser.newContext({ storageState });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  const kept = async () => {
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    return { heap: usedSize, ...await session.send("Memory.getDOMCounters") };
  };
  await page.goto(base + "/");
  const update = (times) => page.evaluate(async (times) => {
    const ticks = new BroadcastChannel("ticks");
    for (let i = 0; i < times; i++) {
      const old = document.getElementById("live");
      ticks.postMessage("tick");
      for (let k = 0; k < 500 && old.isConnected; k++) await new Promise((done) => setTimeout(done, 10));
    }
    ticks.close();
  }, times);
  await update(20);
  const before = await kept();
  await update(300);
  const after = await kept();
  console.log(`300 updates of the overview: ${JSON.stringify(before)} before, ${JSON.stringify(after)} after`);
  if (after.heap > 1.5 * before.heap + 1e6 || after.nodes > 1.5 * before.nodes || after.jsEventListeners > 1.5 * before.jsEventListeners) complain("300 updates", "what is kept grows");
  await context.close();
}

// bring plans with documents of one's own: a mistake is told with its line, and mended there.
async function bring(storageState, javaScriptEnabled) {
  const name = javaScriptEnabled ? "own documents" : "own documents without scripts";
  const context = await browser.newContext({ storageState, javaScriptEnabled, viewport: { width: 390, height: 900 } });
  const page = await context.newPage();
  watch(page, () => name);
  await page.goto(base + "/plan/own");
  const good = await page.locator("#sla").inputValue();
  await page.locator("#sla").fill("slas:\n  - {task: nobody, rate: 1}\n");
  await page.getByRole("button", { name: "Plan" }).click();
  await page.locator("[role=alert]", { hasText: "SLA:2:" }).waitFor({ timeout: 15000 }).catch(() => complain(name, "a mistake is not told with its line"));
  await page.screenshot({ path: `${pictures}/plan-mistake-390.png`, fullPage: true });
  await page.locator("#sla-file").setInputFiles({ name: "sla.yaml", mimeType: "text/yaml", buffer: Buffer.from(good) });
  await page.getByRole("button", { name: "Plan" }).click();
  await page.waitForURL(/\/plan\/own\/\d+$/, { timeout: 15000 }).catch(() => complain(name, "no plan is shown"));
  await page.locator("#cost", { hasText: "USD" }).waitFor({ timeout: 15000 }).catch(() => complain(name, "the plan has no cost"));
  await page.screenshot({ path: `${pictures}/plan-brought-390.png`, fullPage: true });
  await context.close();
}

// go takes one step of the walk; what follows is walked through though it ends early.
async function go(step, ...args) {
  const began = Date.now();
  await step(...args).catch((e) => complain(`${step.name} ${args.slice(1).join(" ")}`, e.stack));
  console.log(`${step.name} ${args.slice(1).join(" ")}: ${((Date.now() - began) / 1000).toFixed(1)} s`);
}

const session = await logIn();
for (const colours of ["light", "dark"]) {
  for (const width of [1440, 390]) {
    await go(strange, session, colours, width);
    await go(walk, session, colours, width, true);
  }
}
await go(walk, session, "light", 1440, false);
await go(crowd, session);
await go(submit, session, true);
await go(submit, session, false);
await go(hover, session, 1440);
await go(hover, session, 390);
await go(runs, session, 1);
await go(runs, session, 2);
await go(age, session);
await go(bring, session, true);
await go(bring, session, false);
await go(loads, session);
await browser.close();
tellPaints();
console.log(wrong.length === 0 ? "all views are as they should be" : wrong.join("\n"));
process.exit(wrong.length === 0 ? 0 : 1);
