// Fetches the page again when the store has changed, once a second at most, while it is looked at.
import { morph } from "./morph.js";
import { keepTimes } from "./times.js";

const LEAST = 1000; // milliseconds between two fetches
const KEPT = ["main", ".side nav", ".top h1", ".live"];

let source = null;
let last = Date.now();
let due = 0;
let fetching = false;
let heard = ""; // of which change the server has told: it makes a page once for all who heard of it
let again = false; // the store has changed since the fetch that is under way began

export function follow() {
  if (!document.body.dataset.live) return;
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start(true)));
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", (event) => event.persisted && start(true));
  if (!document.hidden) start(false);
}

// A page that is not in view keeps no connection: a browser has few for one server.
function start(late) {
  stop();
  heard = "";
  source = new EventSource(document.body.dataset.live);
  source.addEventListener("open", () => show("live", "Live"));
  source.addEventListener("error", () => show("lost", "Not live"));
  source.addEventListener("change", (event) => {
    heard = event.data;
    soon();
  });
  if (late) soon();
}

function stop() {
  source?.close();
  source = null;
  clearTimeout(due);
  due = 0;
}

function soon() {
  if (fetching) again = true;
  if (due || fetching) return;
  due = setTimeout(refresh, Math.max(0, last + LEAST - Date.now()));
}

export async function refresh() {
  due = 0;
  last = Date.now();
  // A page that loads by itself what is new in it says so.
  if (!document.dispatchEvent(new CustomEvent("changed", { cancelable: true }))) return;
  fetching = true;
  try {
    const headers = { Accept: "text/html", "Penstock-Change": heard };
    const answer = await fetch(location.href, { headers, cache: "no-store" });
    if (answer.redirected) {
      location.reload(); // the session is over
      return;
    }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    keepTimes(fresh);
    replace(fresh);
    document.dispatchEvent(new CustomEvent("refreshed"));
  } catch {
    show("lost", "Not live");
  } finally {
    fetching = false;
    if (again) {
      again = false;
      soon();
    }
  }
}

function replace(fresh) {
  for (const selector of KEPT) {
    const old = document.querySelector(selector);
    const now = fresh.querySelector(selector);
    if (old && now) morph(old, now);
  }
  document.title = fresh.title;
  if (source?.readyState === EventSource.OPEN) show("live", "Live");
}

function show(state, word) {
  const sign = document.querySelector("[data-live-state]");
  if (!sign) return;
  sign.dataset.liveState = state;
  sign.querySelector("[data-live-word]").textContent = word;
}
