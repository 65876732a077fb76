// What stands beside the figure: the chosen attempt, and sums over what is shown.
import { AGAIN, DROPPED, FAILED, RUNS } from "./timeline_data.js";
import { clock, plain, took } from "./timeline_words.js";

const SVG = "http://www.w3.org/2000/svg";
const TAGS = { running: "run", done: "good", failed: "bad", "tried again": "bad", lost: "bad" };

function element(name, attributes = {}, ...children) {
  const made = name === "svg" || name === "rect" ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// An attempt in a sentence.
export function told(row, lane, now) {
  const waited = `waited ${took(row.start - row.from)}${row.behind ? ` for ${plain(row.behind)}` : ""}`;
  const where = lane === "" ? "" : `, ${plain(lane)}`;
  if (row.how === DROPPED) return `${plain(row.task)} dropped${where}, ${clock(row.start)}`;
  const ran = row.how === RUNS ? `runs for ${took(now - row.start)}` : `ran ${took(row.end - row.start)}`;
  return `${plain(row.task)} ${row.outcome}${where}, ${clock(row.start)}, ${waited}, ${ran}`;
}

export function showChosen(figure, model, view, given) {
  const card = figure.querySelector("[data-chosen]");
  if (!view.chosen) {
    const hint = element("p", { class: "empty" }, "Choose an attempt: click on it, or walk there with the arrow keys.");
    card.replaceChildren(element("header", {}, element("h2", {}, "No attempt is chosen")), hint);
    return;
  }
  const { row } = view.chosen, whose = row.tenant ? { tenant: row.tenant } : {};
  const job = `${given.root}/${row.queue ? "job" : "workflow"}?${new URLSearchParams({ id: row.id, ...whose })}`;
  const tag = element("span", { class: `tag ${TAGS[row.outcome] ?? ""}` }, row.outcome);
  const open = element("a", { class: "button", href: job, "data-open": "" }, row.queue ? "Open the job" : "Open the run");
  const facts = element("dl", { class: "facts" });
  for (const [name, value] of known(row, model.now)) {
    facts.append(element("dt", {}, name), element("dd", { class: name ? "" : "soft" }, value));
  }
  card.replaceChildren(
    element("header", {}, element("h2", {}, plain(row.task)), tag),
    element("div", { class: "id faint" }, plain(row.id)),
    ...life(row, model.now), facts, element("p", { class: "more" }, open),
  );
  if (document.querySelector(`nav a[href="${given.root}/jobs"]`)) showArguments(card, facts, job);
}

function known(row, now) {
  const waited = took(row.start - row.from), ran = took((row.how === RUNS ? now : row.end) - row.start);
  const facts = [["waited", row.behind || !row.queue ? waited : `${waited} for a worker`]];
  if (row.behind) facts.push(["", `for ${plain(row.behind)}`]);
  if (row.how !== DROPPED) facts.push([row.how === RUNS ? "runs for" : "ran", row.worker ? `${ran} on ${plain(row.worker)}` : ran]);
  if (row.keys.length) facts.push([row.keys.length > 1 ? "keys" : "key", row.keys.map(plain).join(", ")]);
  if (row.queue) facts.push(["queue", plain(row.queue)], ["attempt", String(row.number)]);
  if (row.tenant) facts.push(["tenant", plain(row.tenant)]);
  return facts;
}

// When it waited and ran, as one strip.
function life(row, now) {
  const end = row.how === RUNS ? now : row.end, whole = Math.max(1, end - row.from), wide = 264;
  const at = ((row.start - row.from) / whole) * wide, bad = row.how === FAILED || row.how === AGAIN;
  const rect = (x, width, name) => element("rect", { x, y: 0, width: Math.max(0, width), height: 10, rx: 2, class: name });
  const label = `waited ${took(row.start - row.from)}, ran ${took(end - row.start)}`;
  const strip = element("svg", { class: "lived", viewBox: `0 0 ${wide} 10`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  if (at > 1) strip.append(rect(0, at - 1, row.behind ? "life-wait" : "life-rest"));
  if (row.how !== DROPPED) strip.append(rect(Math.min(at, wide - 2), Math.max(2, wide - at), bad ? "life-bad" : row.how === RUNS ? "life-run" : "life-past"));
  const ends = element("div", { class: "lived-ends faint" }, element("span", {}, clock(row.from)), element("span", {}, row.how === RUNS ? "now" : clock(end)));
  return [strip, ends];
}

async function showArguments(card, facts, address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } }).catch(() => null);
  const found = answer?.ok ? await answer.json() : null;
  if (!facts.isConnected || !found?.args) return;
  const text = plain(found.args), short = text.length > 120 ? `${text.slice(0, 119)}…` : text;
  facts.prepend(element("dt", {}, "arguments"), element("dd", {}, element("code", {}, short)));
}

export function showSums(figure, model, view) {
  const { from, to } = view, now = model.now, starts = [], ends = [], waits = [];
  let failed = 0, dropped = 0;
  for (const row of model.rows.values()) {
    const end = Math.min(row.end, now);
    if (end < from || row.start > to) continue;
    if (row.how === DROPPED) dropped++;
    else {
      starts.push(row.start);
      ends.push(end);
      if (row.start >= from) waits.push(row.start - row.from);
      if (row.how === FAILED || row.how === AGAIN) failed++;
    }
  }
  waits.sort((a, b) => a - b);
  const at = (part) => took(waits[Math.min(waits.length - 1, Math.floor(waits.length * part))]), twice = overlaps(model, from, to);
  const put = (name, text, tone = "") => {
    const cell = figure.querySelector(`[data-sum="${name}"]`);
    if (cell) Object.assign(cell, { textContent: text, className: `num ${tone}` });
  };
  put("all", starts.length.toLocaleString("en"));
  put("two", twice === 0 ? "never" : twice === 1 ? "once" : `${twice.toLocaleString("en")} times`, twice ? "" : "good");
  put("most", atOnce(starts, ends).toLocaleString("en"));
  put("waited", waits.length ? `${at(0.5)} / ${at(0.95)}` : "none");
  put("failed", failed.toLocaleString("en"), failed ? "bad" : "");
  put("dropped", dropped.toLocaleString("en"), dropped ? "bad" : "");
}

// How often an attempt began while another of its lane ran.
function overlaps(model, from, to) {
  let count = 0;
  for (const lane of model.lanes) {
    if (lane.tracks.length < 2 || !lane.name) continue;
    let last = -Infinity;
    for (const row of lane.order) {
      if (row.start > to) break;
      if (row.track === undefined) continue;
      if (row.start < last && row.start >= from) count++;
      last = Math.max(last, row.end);
    }
  }
  return count;
}

function atOnce(starts, ends) {
  const begun = Float64Array.from(starts).sort(), ended = Float64Array.from(ends).sort();
  let most = 0;
  for (let n = 0, m = 0; n < begun.length; n++) {
    while (ended[m] <= begun[n]) m++;
    most = Math.max(most, n + 1 - m);
  }
  return most;
}
