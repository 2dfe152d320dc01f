// Takes the pictures of docs/tour.md from a gleaner that is up, in a real browser. TestPageTour starts it:
//
//   node tour.mjs MODULES LINK PICTURES [killed]
//
// The arguments are those of walk.mjs; with killed, the pictures are those of a gleaner whose guard killed tasks. Pictures are WebP, as high as what they are to show.
import { createRequire } from "node:module";
import { mkdirSync, writeFileSync } from "node:fs";

const [modules, link, pictures, which] = process.argv.slice(2);
const { chromium } = createRequire(modules + "/")("playwright-core");
const base = new URL(link).origin;
mkdirSync(pictures, { recursive: true });

// tour is each picture: its name, the address of its view, the last thing to be seen on it, and how it is looked at.
const tour = [
  ["overview", "/", 'section:has(h2:text-is("Last kills"))'],
  ["overview-dark", "/", "section:has(.charts)", { dark: true }],
  ["overview-phone", "/", ".charts figure", { phone: true }],
  ["tenants", "/tenants", ".charts figure:nth-child(4)"],
  ["tenants-replicas", "/tenants", "#grid", { from: "#reimages" }],
  ["tenant", null, ".charts"],
  ["tenant-phone", null, ".charts figure:nth-child(2)", { phone: true, dark: true }],
  ["jobs", "/jobs", "#live"],
  ["job", "/jobs/1", "#live"],
  ["job-dark", "/jobs/1", "figure", { dark: true, act: zoomed }],
  ["job-phone", "/jobs/1", "figure", { phone: true }],
  ["task", "/jobs/1/tasks/report-0", "main"],
  ["slowdown", "/slowdown", "main"],
  ["storage", "/storage", "main"],
  ["storage-dark", "/storage", "section:nth-of-type(2)", { dark: true }],
  ["vdisk", "/storage/first", "main"],
  ["plan", "/plan?example=photoshare&hw=server1&against=table1&level=12", "main", { act: planned }],
  ["plan-phone", "/plan?example=productsearch&level=12", "#where", { phone: true, act: planned }],
  ["plan-robust", "/plan/robust?example=productsearch", "main"],
  ["traces", "/traces/heartbeat", "main"],
  ["lab", "/lab", "main"],
  ["experiment", "/lab/scc", "section:nth-of-type(1)"],
];
const killed = [
  ["job-killed", "/jobs/1", "#live", { from: 'section:has(h2:text-is("Runs"))' }],
];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const first = await browser.newContext();
await (await first.newPage()).goto(link);
const storageState = await first.storageState();
await first.close();

// known waits until the history is classified, and is the address of a periodic tenant.
async function known(page) {
  await page.goto(base + "/tenants");
  const link = page.locator("tr", { hasText: "periodic" }).locator("a").first();
  await link.waitFor({ timeout: 300000 });
  return link.getAttribute("href");
}

// zoomed shows a part of the time of a job's runs.
async function zoomed(page) {
  const [from, to] = await page.locator("figure .wide svg").evaluate((svg) => [Number(svg.dataset.from), Number(svg.dataset.to)]);
  await page.goto(`${page.url()}?from=${Math.floor(from + (to - from) * 0.05)}&to=${Math.ceil(from + (to - from) * 0.45)}`);
}

// planned waits until the curve is whole.
async function planned(page) {
  for (let i = 0; i < 120 && await page.getByText("the others follow").count() > 0; i++) {
    await page.waitForTimeout(1000);
    await page.reload();
  }
}

let tenant; // known once the history is classified
for (const [name, path, until, how = {}] of which === "killed" ? killed : tour) {
  const context = await browser.newContext({ storageState, colorScheme: how.dark ? "dark" : "light", viewport: { width: how.phone ? 390 : 1440, height: 900 } });
  const page = await context.newPage();
  if (path === "/tenants" && !tenant) tenant = await known(page);
  await page.goto(base + (path ?? tenant));
  if (how.act) await how.act(page);
  await page.locator("#fresh", { hasText: "kept up to date" }).or(page.locator("footer:not(:has(#fresh))")).waitFor({ timeout: 15000 });
  const top = how.from ? (await page.locator(how.from).first().boundingBox()).y - 16 : 0;
  const box = await page.locator(until).first().boundingBox();
  const clip = { x: 0, y: top, width: how.phone ? 390 : 1440, height: Math.round(box.y + box.height + (until === "main" ? -8 : 8) - top), scale: 1 };
  const session = await context.newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 68, captureBeyondViewport: true, clip });
  writeFileSync(`${pictures}/${name}.webp`, Buffer.from(data, "base64"));
  console.log(`${name}: ${clip.width} by ${clip.height}, ${(data.length * 3 / 4 / 1024).toFixed(0)} KiB`);
  await context.close();
}
await browser.close();
