// One frame.  It looks up what is in view, and passes over what would lie within a pixel that is drawn already: what it
// costs grows with the size of the canvas and hardly with the number of attempts.
import { after, AGAIN, CANCELLED, DONE, FAILED, RETURNED, RUNS } from "./timeline_data.js";
import { clock, plain } from "./timeline_words.js";

export const HEAD = 28, STRIP = 36;
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE), ...[1, 2, 3, 6, 12].map((n) => n * HOUR), DAY, 2 * DAY, 7 * DAY, 30 * DAY,
];
const NAMES = ["paper", "hair", "edge", "ink", "soft", "faint", "link", "run", "past", "wait", "bad", "field"];

// The colours of the style sheet, as they are now.
export function inks(element) {
  const probe = element.appendChild(document.createElement("i")), found = {};
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  const style = getComputedStyle(element);
  return { ...found, sans: `11px ${style.fontFamily}`, mono: `12px ${style.getPropertyValue("--mono")}` };
}

export function draw(pen, model, view, ink) {
  const { width, height, left } = view;
  pen.clearRect(0, 0, width, height);
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  axis(pen, view, ink);
  pen.save();
  pen.beginPath();
  pen.rect(0, HEAD, width, height - HEAD - STRIP);
  pen.clip();
  const { lanes } = model, bottom = height - STRIP;
  for (let n = firstLane(lanes, view.scroll); n < lanes.length; n++) {
    const y = HEAD + lanes[n].top - view.scroll;
    if (y >= bottom) break;
    drawLane(pen, lanes[n], y, view, ink);
  }
  pen.restore();
  const now = view.x(model.now);
  if (now > left && now <= width) line(pen, Math.round(now) - 0.5, HEAD - 6, bottom, ink.link);
  strip(pen, model, view, ink);
}

// The first lane that reaches below so many pixels.
export function firstLane(lanes, y) {
  let low = 0, high = lanes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lanes[middle].top + lanes[middle].height <= y) low = middle + 1;
    else high = middle;
  }
  return low;
}

// How tall the bars of a lane are, and where the first of its tracks lies.
export function tracksOf(lane) {
  const count = lane.tracks.length;
  if (count <= 1) return { tall: 11, first: 3, step: 11 };
  const step = count <= 3 ? Math.floor(15 / count) : 5;
  return { tall: step - 1, first: 2, step };
}

function axis(pen, view, ink) {
  const { from, to, left, width, height } = view, zone = -new Date(from).getTimezoneOffset() * MINUTE;
  const step = STEPS.find((each) => (each / (to - from)) * (width - left) > 76) ?? 365 * DAY;
  pen.font = ink.sans;
  pen.textAlign = "center";
  for (let t = Math.ceil((from + zone) / step) * step - zone; t < to; t += step) {
    const x = Math.round(view.x(t)) + 0.5;
    if (x < left + 1) continue;
    line(pen, x, HEAD - 6, height - STRIP, ink.hair);
    pen.fillStyle = ink.faint;
    if (x > left + 24 && x < width - 28) pen.fillText(clock(t, step), x, 12);
  }
}

function drawLane(pen, lane, y, view, ink) {
  const { left, width } = view, chosen = view.chosen?.lane === lane.name, { tall, first, step } = tracksOf(lane);
  pen.fillStyle = ink.hair;
  pen.fillRect(0, y + lane.height - 1, width, 1);
  waits(pen, lane.idle, y + lane.height - 4, view, ink.field);
  waits(pen, lane.gate, y + lane.height - 4, view, ink.wait);
  for (let n = 0; n < lane.tracks.length; n++) {
    bars(pen, lane.tracks[n], y + first + n * step, tall, view, ink);
    bars(pen, lane.bad[n], y + first + n * step, tall, view, ink);
  }
  crosses(pen, lane.marks, y + 8.5, view, ink);
  if (chosen) ring(pen, lane, y, view, ink);
  pen.fillStyle = ink.paper;
  pen.fillRect(0, y, left - 4, lane.height - 1);
  pen.fillStyle = chosen ? ink.link : ink.soft;
  pen.textAlign = "left";
  pen.font = ink.mono;
  pen.fillText(label(pen, lane, view), 14, y + Math.min(lane.height, 20) / 2);
}

function label(pen, lane, view) {
  if (lane.labelled === view.left) return lane.label;
  let text = plain(lane.name) || `no ${view.by}`;
  const room = view.left - 20, most = Math.floor(room / pen.measureText("m").width);
  if (text.length > most) text = `${text.slice(0, most - 1)}…`;
  lane.labelled = view.left;
  return (lane.label = text);
}

function waits(pen, spans, y, view, colour) {
  pen.fillStyle = colour;
  const { from, to, left, width } = view;
  for (let n = after(spans.end, from); n < spans.start.length && spans.start[n] < to; ) {
    const a = Math.max(left, view.x(spans.start[n])), b = Math.min(width, view.x(spans.end[n]));
    if (b - a > 0.5) pen.fillRect(a, y, Math.max(1, b - a), 2);
    n = next(spans.end, n, view.time(a + 1));
  }
}

function bars(pen, track, y, tall, view, ink) {
  const { from, to, left, width, now } = view, colours = [ink.past, ink.run, ink.bad, ink.bad, ink.faint, ink.past];
  const { start, end, reach, how } = track;
  for (let n = after(reach, from); n < start.length && start[n] < to; ) {
    const a = Math.max(left, view.x(start[n])), b = Math.min(width, view.x(Math.min(end[n], now))), w = Math.max(1, b - a - 0.7);
    pen.fillStyle = colours[how[n]];
    if (w > 4 && tall > 4) rounded(pen, a, y, w, tall, 2.5);
    else pen.fillRect(a, y, w, tall);
    // Hollow: tried again, put back in line, cancelled.  Those that are full have come to their end.
    if (w > 6 && tall > 4 && (how[n] === AGAIN || how[n] === RETURNED || how[n] === CANCELLED)) {
      pen.fillStyle = ink.paper;
      rounded(pen, a + 2, y + 2, w - 4, tall - 4, 1);
    }
    n = next(reach, n, view.time(a + 1));
  }
}

// The place after *n*, or the first that reaches beyond a moment.
function next(reach, n, time) {
  if (n + 1 >= reach.length || reach[n + 1] > time) return n + 1;
  return Math.max(n + 1, after(reach, time));
}

function rounded(pen, x, y, w, h, r) {
  pen.beginPath();
  pen.roundRect(x, y, w, h, r);
  pen.fill();
}

function crosses(pen, marks, y, view, ink) {
  pen.textAlign = "center";
  pen.font = `bold ${ink.sans}`;
  pen.lineWidth = 3;
  for (let n = after(marks.start, view.from); n < marks.start.length && marks.start[n] < view.to; ) {
    const x = view.x(marks.start[n]);
    pen.strokeStyle = ink.paper;
    pen.strokeText("✕", x, y);
    pen.fillStyle = ink.bad;
    pen.fillText("✕", x, y);
    n = Math.max(n + 1, after(marks.start, view.time(x + 2)));
  }
  pen.lineWidth = 1;
}

function ring(pen, lane, y, view, ink) {
  const { row } = view.chosen, { tall, first, step } = tracksOf(lane), { left, width, now } = view;
  const mark = row.track === undefined, top = mark ? y + 2 : y + first + row.track * step;
  const a = Math.max(left, view.x(row.start) - (mark ? 6 : 0)), b = Math.min(width, mark ? a + 12 : view.x(Math.min(row.end, now)));
  if (b < left || a > width) return;
  for (const [colour, wide, out] of [[ink.paper, 1.5, 0.5], [ink.ink, 1.6, 1.8]]) {
    pen.strokeStyle = colour;
    pen.lineWidth = wide;
    pen.beginPath();
    pen.roundRect(a - out, top - out, Math.max(2, b - a - 0.7) + 2 * out, (mark ? 13 : tall) + 2 * out, 3.5);
    pen.stroke();
  }
  pen.lineWidth = 1;
}

// Everything that is loaded, and the part of it that is shown.
function strip(pen, model, view, ink) {
  const { left, width, height } = view, y = height - STRIP + 8, tall = STRIP - 14, each = (width - left) / model.bins.length;
  pen.fillStyle = ink.edge;
  pen.fillRect(left, y + tall, width - left, 1);
  pen.fillStyle = ink.faint;
  pen.font = ink.sans;
  pen.textAlign = "left";
  pen.fillText(view.whole, 14, y + tall / 2);
  pen.fillStyle = ink.field;
  model.bins.forEach((part, n) => pen.fillRect(left + n * each, y + tall * (1 - part), Math.max(1, each - 1), tall * part));
  const a = Math.max(left, view.stripX(view.from)), b = Math.min(width - 1, view.stripX(view.to));
  pen.fillStyle = ink.link;
  pen.globalAlpha = 0.14;
  pen.fillRect(a, y - 2, Math.max(4, b - a), tall + 4);
  pen.globalAlpha = 1;
  pen.strokeStyle = ink.link;
  pen.strokeRect(Math.round(a) + 0.5, y - 2.5, Math.max(4, b - a), tall + 5);
}

function line(pen, x, from, to, colour) {
  pen.strokeStyle = colour;
  pen.beginPath();
  pen.moveTo(x, from);
  pen.lineTo(x, to);
  pen.stroke();
}
