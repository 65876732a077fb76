// The server writes moments in UTC; here they become those of the reader's own clock, in the same form.
const two = (number) => String(number).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function keepTimes(part) {
  const today = new Date().toDateString();
  for (const element of part.querySelectorAll("time[data-form]")) {
    const at = new Date(element.dateTime);
    element.title = at.toString();
    element.textContent = written(at, element.dataset.form, at.toDateString() === today);
  }
  const zone = part.querySelector("[data-zone]");
  if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
}

function written(at, form, today) {
  const minute = `${two(at.getHours())}:${two(at.getMinutes())}`;
  const day = `${at.getDate()} ${MONTHS[at.getMonth()]}`;
  if (form === "tenths") {
    const exact = `${minute}:${two(at.getSeconds())}.${Math.floor(at.getMilliseconds() / 100)}`;
    return today ? exact : `${day} ${exact}`;
  }
  if (!today) return `${day} ${minute}`;
  return form === "minute" ? minute : `${minute}:${two(at.getSeconds())}`;
}
