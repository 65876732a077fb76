// The figure of the timeline: what it shows, and how it is moved with wheel, pointer and keys.
import { after, Model } from "./timeline_data.js";
import { draw, firstLane, HEAD, inks, STRIP, tracksOf } from "./timeline_draw.js";
import { showChosen, showSums, told } from "./timeline_side.js";
import { clock, took } from "./timeline_words.js";

const figure = document.querySelector("[data-figure]"), part = (name) => figure.querySelector(`[data-${name}]`);
const canvas = figure.querySelector("canvas"), pen = canvas.getContext("2d"), box = part("scroll"), tip = part("tip");
const follows = document.querySelector("[data-follow]"), given = figure.dataset;
const LEAST = 10, MOST = 400 * 86_400_000, HORIZON = 900_000; // milliseconds
const model = new Model(given.address, given.by, given.name);
const view = {
  by: given.by, scroll: 0, chosen: null, follow: "live" in given && !("fixed" in given), whole: "", now: given.until / 1000,
  to: given.until / 1000, span: (given.until - given.since) / 1000,
  get from() { return this.to - this.span; },
  x(time) { return this.left + ((time - this.from) / this.span) * (this.width - this.left); },
  time(x) { return this.from + ((x - this.left) / (this.width - this.left)) * this.span; },
  stripX(time) { return this.left + ((time - model.first) / (model.until / 1000 - model.first)) * (this.width - this.left); },
  stripTime(x) { return model.first + ((x - this.left) / (this.width - this.left)) * (model.until / 1000 - model.first); },
};
let ink = inks(figure), framed = 0, summed = 0, loading = false, again = false, held = null;

function frame() {
  framed = 0;
  view.now = model.now;
  if (view.follow) view.to = view.now + view.span * 0.015;
  view.scroll = box.scrollTop;
  draw(pen, model, view, ink);
  part("range").textContent = `${clock(view.from, 1000)} – ${clock(Math.min(view.to, view.now), 1000)}`;
}

function soon() {
  framed ||= requestAnimationFrame(frame);
  summed ||= setTimeout(sum, 250);
}

function sum() {
  summed = 0;
  showSums(figure, model, view);
  const query = new URLSearchParams({ by: given.by, since: Math.max(0, Math.floor(view.from * 1000)), until: Math.ceil(view.to * 1000), as: "table" });
  if (given.name) query.set("name", given.name);
  document.querySelector("[data-table]").href = `${given.address}?${query}`;
  if (view.from * 1000 < model.since && !model.cut) load();
}

function fit() {
  const ratio = devicePixelRatio || 1, narrow = innerWidth <= 720;
  view.left = narrow ? 136 : 152;
  const most = Math.floor(Math.max(240, narrow ? 440 : innerHeight - 310) / 20) * 20; // whole lanes
  view.height = HEAD + STRIP + Math.min(Math.max(model.tall ?? 0, 60), most);
  part("tall").style.height = `${Math.max(view.height, HEAD + STRIP + (model.tall ?? 0))}px`;
  box.style.height = canvas.style.height = `${view.height}px`;
  view.width = canvas.clientWidth;
  const [width, height] = [Math.round(view.width * ratio), Math.round(view.height * ratio)];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height }); // which clears it
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  ink = inks(figure);
  soon();
}

function changed() {
  const { length } = model.lanes;
  part("lanes").textContent = `${length.toLocaleString("en")} ${given.by}${length === 1 ? "" : "s"}`;
  const span = model.until / 1000 - model.first;
  part("count").textContent = `${model.cut ? "the latest " : ""}${model.rows.size.toLocaleString("en")} attempts in ${took(span)}`;
  view.whole = `all ${took(span)}`;
  if (view.chosen) {
    const row = model.rows.get(view.chosen.row.mark);
    if (row !== view.chosen.row) choose(row && { lane: row.lanes.includes(view.chosen.lane) ? view.chosen.lane : row.lanes[0], row }, false);
  }
  fit();
}

// One load at a time: what is not there yet of the past that is shown, and then what is new.
async function load() {
  if (loading) {
    again = true;
    return;
  }
  loading = true;
  try {
    const wanted = Math.floor(Math.min(view.from, view.to - HORIZON) * 1000);
    if (!model.until) await model.load(Math.max(0, wanted), "live" in given ? null : Number(given.until), changed);
    else if (wanted < model.since && !model.cut) {
      const from = Math.max(0, Math.floor(Math.min(wanted, view.from * 1000 - view.span * 500)));
      await model.load(from, model.since, changed);
    } else if ("live" in given) await model.more(changed);
  } catch (error) {
    part("count").textContent = error.message;
  } finally {
    loading = false;
    figure.dataset.loaded = model.until;
    if (again) {
      again = false;
      setTimeout(load, 500);
    }
  }
}

function follow(on) {
  view.follow = on;
  follows.setAttribute("aria-pressed", on);
  if (on) tick();
  soon();
}

// As often as what is shown moves by a pixel, but for those who want little motion.
function tick() {
  if (!view.follow) return;
  soon();
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 33;
  setTimeout(tick, document.hidden ? 1000 : Math.max(calm, Math.min(1000, view.span / view.width)));
}

function zoom(factor, at = view.follow ? view.to : view.to - view.span / 2) {
  const span = Math.min(MOST, Math.max(LEAST, view.span * factor));
  if (!view.follow) view.to = at + ((view.to - at) * span) / view.span;
  setSpan(span);
}

function setSpan(span) {
  view.span = span;
  for (const link of document.querySelectorAll("[data-span]")) {
    if (Number(link.dataset.span) * 1000 === span) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  soon();
}

function move(to) {
  if (view.follow) follow(false);
  view.to = Math.min(to, model.now + view.span * 0.9);
  soon();
}

function choose(chosen, seen = true) {
  view.chosen = chosen ?? null;
  showChosen(figure, model, view, given);
  if (chosen && seen) {
    const { row } = chosen, lane = model.lane(chosen.lane), room = view.height - HEAD - STRIP;
    if (row.start < view.from) move(row.start + view.span * 0.8);
    else if (row.start > view.to) move(row.start + view.span * 0.2);
    if (lane.top < box.scrollTop) box.scrollTop = lane.top;
    if (lane.top + lane.height > box.scrollTop + room) box.scrollTop = lane.top + lane.height - room;
    part("said").textContent = told(row, chosen.lane, model.now);
  }
  soon();
}

function hit(event) {
  const { left, top } = canvas.getBoundingClientRect(), x = event.clientX - left, y = event.clientY - top;
  const lane = model.lanes[firstLane(model.lanes, y - HEAD + box.scrollTop)];
  if (!lane || y < HEAD || y > view.height - STRIP || x < view.left) return null;
  const near = view.time(x + 3), before = view.time(x - 3), { first, step } = tracksOf(lane);
  const at = Math.floor((y - HEAD + box.scrollTop - lane.top - first) / step);
  for (const track of [lane.marks, lane.tracks[Math.max(0, Math.min(lane.tracks.length - 1, at))]]) {
    const n = track ? after(track.start, near) - 1 : -1;
    if (n >= 0 && track.end[n] >= (track === lane.marks ? view.time(x - 5) : before)) return { lane: lane.name, row: track.rows[n] };
  }
  return null;
}

const inStrip = (event) => event.clientY - canvas.getBoundingClientRect().top > view.height - STRIP;

function drag(event) {
  const dx = event.clientX - held.x;
  held.far ||= Math.abs(dx) > 3 || Math.abs(event.clientY - held.y) > 3;
  tip.hidden = true;
  if (held.strip) move(view.stripTime(event.clientX - canvas.getBoundingClientRect().left) + view.span / 2);
  else if (held.far) {
    if (Math.abs(dx) > 3) move(held.to - (dx / (view.width - view.left)) * view.span);
    if (event.pointerType === "mouse") box.scrollTop = held.scroll - (event.clientY - held.y);
  }
}

function point(event) {
  const found = hit(event), frame = box.getBoundingClientRect();
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = told(found.row, found.lane, model.now);
  tip.style.left = `${Math.max(4, Math.min(event.clientX - frame.left + 12, view.width - tip.offsetWidth - 6))}px`;
  tip.style.top = `${box.offsetTop + Math.min(event.clientY - frame.top + 16, view.height - 30)}px`;
}

const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
const LANES = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 };

function walk(key) {
  if (!model.lanes.length) return;
  const known = view.chosen && model.lane(view.chosen.lane);
  if (!known) {
    const lane = model.lanes[firstLane(model.lanes, box.scrollTop)];
    choose({ lane: lane.name, row: lane.order[Math.max(0, after(lane.starts, Math.min(view.to, model.now)) - 1)] });
  } else if (key in STEPS) {
    const n = known.order.indexOf(view.chosen.row) + STEPS[key];
    choose({ lane: known.name, row: known.order[Math.max(0, Math.min(known.order.length - 1, n))] });
  } else {
    const n = Math.max(0, Math.min(model.lanes.length - 1, model.lanes.indexOf(known) + LANES[key])), lane = model.lanes[n];
    if (lane === known) return;
    const place = after(lane.starts, view.chosen.row.start), [a, b] = [lane.order[place - 1], lane.order[place]];
    const nearest = !a || (b && b.start - view.chosen.row.start < view.chosen.row.start - a.start) ? b : a;
    choose({ lane: lane.name, row: nearest });
  }
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { key } = event;
  if (key in STEPS || key in LANES) walk(key);
  else if (key === "+" || key === "=") zoom(1 / 1.5);
  else if (key === "-") zoom(1.5);
  else if (key === "Enter" && view.chosen) part("open")?.click();
  else if (key === "Escape" && view.chosen) choose(null);
  else return;
  event.preventDefault();
}

function listen() {
  canvas.addEventListener("keydown", press);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey) box.scrollTop += event.deltaY || event.deltaX;
    else zoom(Math.exp(event.deltaY * 0.0015), view.time(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, to: view.to, scroll: box.scrollTop, strip: inStrip(event), far: false };
    canvas.setPointerCapture(event.pointerId);
    if (held.strip) drag(event);
  });
  canvas.addEventListener("pointermove", (event) => (held ? drag(event) : point(event)));
  canvas.addEventListener("pointerup", (event) => {
    if (held && !held.far && !held.strip) choose(hit(event), false);
    held = null;
  });
  canvas.addEventListener("pointercancel", () => (held = null));
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  box.addEventListener("scroll", soon);
  follows.addEventListener("click", () => follow(!view.follow));
  for (const link of document.querySelectorAll("[data-span]")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      setSpan(Number(link.dataset.span) * 1000);
      load();
    });
  }
  new ResizeObserver(fit).observe(box);
  new MutationObserver(fit).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", fit);
  document.addEventListener("changed", (event) => {
    event.preventDefault(); // the page itself stays as it is
    load();
  });
}

figure.hidden = false;
follows.hidden = !("live" in given);
listen();
fit();
choose(null);
follow(view.follow);
load();
figure.timeline = { model, view, frame, fit }; // for those who measure
