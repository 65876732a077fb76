// How moments and spans of the timeline are written, in milliseconds.
const two = (number) => String(number).padStart(2, "0");
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

// A moment of the reader's own clock, as exact as a step of the axis needs it.
export function clock(time, step = 100) {
  const at = new Date(time), minute = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (step >= DAY) return `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  if (step >= MINUTE) return minute;
  const second = `${minute}:${two(at.getSeconds())}`;
  if (step >= SECOND) return second;
  const part = String(at.getMilliseconds()).padStart(3, "0");
  return `${second}.${step >= 100 ? part[0] : part}`;
}

export function took(span) {
  if (span < SECOND) return `${Math.max(0, Math.round(span))} ms`;
  if (span < MINUTE) return `${(Math.floor(span / 100) / 10).toFixed(1)} s`;
  if (span < HOUR) return parts(span, MINUTE, "min", SECOND, "s");
  return span < DAY ? parts(span, HOUR, "h", MINUTE, "min") : parts(span, DAY, "d", HOUR, "h");
}

function parts(span, unit, name, part, less) {
  const rest = Math.floor((span % unit) / part);
  return `${Math.floor(span / unit)} ${name}${rest ? ` ${two(rest)} ${less}` : ""}`;
}

// A name that cannot change how what stands around it is read: each odd character by its number.
export function plain(text) {
  return text.replace(/[\p{C}\u2028\u2029]/gu, (odd) => `\\u{${odd.codePointAt(0).toString(16)}}`);
}
