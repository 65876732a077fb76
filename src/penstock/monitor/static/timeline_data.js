// What the figure is made of: attempts in lanes, and each lane in tracks in which nothing overlaps, sorted by time.
export const DONE = 0, RUNS = 1, AGAIN = 2, FAILED = 3, CANCELLED = 4, RETURNED = 5, DROPPED = 6;
const HOW = {
  "done": DONE, "running": RUNS, "tried again": AGAIN, "lost": AGAIN, "failed": FAILED, "cancelled": CANCELLED,
  "again": RETURNED, "limited": RETURNED, "handed back": RETURNED, "dropped": DROPPED,
};
const KEPT = 100_000; // attempts in memory; the oldest are left out
const OVERLAP = 5_000_000; // microseconds: what ended just before the last look may have been committed after it
const MOST_TRACKS = 12;
const BINS = 160;
const order = new Intl.Collator("en", { numeric: true });

// The first place at which a sorted array has more than a value.
export function after(array, value) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Model {
  constructor(address, by, name) {
    Object.assign(this, { address, by, name, rows: new Map(), byName: new Map(), lanes: [], dirty: new Set() });
    Object.assign(this, { since: 0, until: 0, first: 0, ahead: 0, bins: new Float64Array(BINS), cut: false });
  }

  // The present as the server has it, in milliseconds.
  get now() {
    return Date.now() + this.ahead;
  }

  // Load what ended in a span of microseconds, and what runs; tell after each page.
  async load(since, until, told) {
    const seen = new Set(), running = [...this.rows.values()].filter((row) => row.how === RUNS);
    let cursor = null, page = null, count = 0, end = until;
    do {
      const query = new URLSearchParams({ by: this.by, since: Math.floor(since), most: 20_000, format: "json" });
      if (this.name) query.set("name", this.name);
      if (end !== null) query.set("until", Math.ceil(end));
      if (cursor) query.set("cursor", cursor);
      const answer = await fetch(`${this.address}?${query}`, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(`the timeline was answered with ${answer.status}`);
      page = await answer.json();
      end = page.until; // of all pages the same
      this.ahead = page.now / 1000 - Date.now();
      count += this.#add(page, seen);
      cursor = page.cursor;
      if (until === null || !this.until) this.until = Math.max(this.until, page.until);
      if (!cursor || page.reached < page.until) this.since = Math.min(this.since || Infinity, page.reached);
      if (cursor && count >= KEPT) this.cut = true;
      if (cursor) this.#settle(told);
    } while (cursor && count < KEPT);
    // What ran, and neither runs nor has ended, was handed back and never began.
    if (until === null) for (const row of running) if (!seen.has(row.mark) && this.rows.get(row.mark) === row) this.#remove(row);
    this.#trim();
    this.#settle(told);
  }

  more(told) {
    return this.load(this.until - OVERLAP, null, told);
  }

  lane(name) {
    return this.byName.get(name);
  }

  #add(page, seen) {
    const { columns: c, texts } = page;
    for (let n = 0; n < c.id.length; n++) {
      const mark = `${c.seq[n]}.${c.number[n]}`, outcome = texts[c.outcome[n]], old = this.rows.get(mark);
      seen.add(mark);
      if (old && old.outcome === outcome) continue;
      if (old) this.#remove(old);
      // Whole microseconds until the last: what ends when another begins must not seem to overlap with it.
      const claimed = page.since + c.claimed[n], tenant = texts[c.tenant[n]];
      const row = {
        mark, outcome, how: HOW[outcome] ?? RETURNED, id: c.id[n], number: c.number[n], tenant,
        queue: texts[c.queue[n]], task: texts[c.task[n]], worker: texts[c.worker[n]], behind: texts[c.behind[n]],
        keys: c.keys[n].map((place) => texts[place]), from: (claimed - c.waited[n]) / 1000,
        start: (claimed + c.late[n]) / 1000, end: c.ran[n] === null ? Infinity : (claimed + c.ran[n]) / 1000,
      };
      row.lanes = this.#names(row);
      this.rows.set(mark, row);
      for (const name of row.lanes) this.#touch(name).rows.add(row);
    }
    return c.id.length;
  }

  #names(row) {
    const whose = row.tenant && this.by === "key" ? `${row.tenant} · ` : "";
    if (this.by !== "key") return [row[this.by]];
    const names = row.keys.filter((key) => key.startsWith(this.name)).map((key) => whose + key);
    return names.length ? names : [whose];
  }

  #touch(name) {
    let lane = this.byName.get(name);
    if (!lane) this.byName.set(name, (lane = { name, rows: new Set() }));
    this.dirty.add(lane);
    return lane;
  }

  #remove(row) {
    this.rows.delete(row.mark);
    for (const name of row.lanes) this.#touch(name).rows.delete(row);
  }

  #trim() {
    if (this.rows.size <= 1.5 * KEPT) return;
    const ends = Float64Array.from(this.rows.values(), (row) => row.end).sort();
    const least = ends[ends.length - KEPT];
    for (const row of [...this.rows.values()]) if (row.end < least) this.#remove(row);
    this.since = Math.max(this.since, least * 1000);
    this.cut = true;
  }

  #settle(told) {
    let named = false;
    for (const lane of this.dirty) {
      named ||= !lane.order || !lane.rows.size;
      if (lane.rows.size) build(lane);
      else this.byName.delete(lane.name);
    }
    this.dirty.clear();
    if (named) this.lanes = [...this.byName.values()].sort((a, b) => order.compare(a.name, b.name));
    let top = 0;
    for (const lane of this.lanes) {
      lane.top = top;
      top += lane.height;
    }
    this.tall = top;
    this.#count();
    told();
  }

  #count() {
    const { bins } = this;
    let first = this.until / 1000;
    for (const row of this.rows.values()) first = Math.min(first, row.from);
    const since = (this.first = Math.max(this.since / 1000, first)), span = this.until / 1000 - since;
    bins.fill(0);
    for (const row of this.rows.values()) {
      const place = Math.floor(((row.start - since) / span) * BINS);
      if (place >= 0 && place < BINS) bins[place]++;
    }
    const most = Math.max(1, ...bins);
    for (let n = 0; n < BINS; n++) bins[n] /= most;
  }
}

function build(lane) {
  const rows = [...lane.rows].sort((a, b) => a.start - b.start || a.end - b.end);
  lane.order = rows;
  lane.starts = Float64Array.from(rows, (row) => row.start);
  lane.marks = track(rows.filter((row) => row.how === DROPPED));
  const tracks = [], ends = [];
  for (const row of rows) {
    if (row.how === DROPPED) continue;
    let at = ends.findIndex((end) => end <= row.start);
    if (at < 0) at = ends.length < MOST_TRACKS ? ends.length : ends.indexOf(Math.min(...ends));
    (tracks[at] ??= []).push(row);
    ends[at] = Math.max(ends[at] ?? 0, row.end);
    row.track = at;
  }
  lane.tracks = tracks.map(track);
  lane.bad = tracks.map((own) => track(own.filter((row) => row.how === FAILED || row.how === AGAIN)));
  lane.height = tracks.length <= 3 ? 20 : tracks.length * 5 + 6;
  lane.gate = merged(rows.filter((row) => row.behind));
  lane.idle = merged(rows.filter((row) => !row.behind));
}

// Reach is how far an attempt or one before it went: it grows, also where attempts had to share a track.
function track(rows) {
  let reach = 0;
  return {
    rows,
    start: Float64Array.from(rows, (row) => row.start),
    end: Float64Array.from(rows, (row) => row.end),
    reach: Float64Array.from(rows, (row) => (reach = Math.max(reach, row.end))),
    how: Uint8Array.from(rows, (row) => row.how),
  };
}

// When any of these waited, as spans that do not touch.
function merged(rows) {
  const start = [], end = [];
  for (const row of rows.filter((each) => each.start > each.from).sort((a, b) => a.from - b.from)) {
    if (end.length && row.from <= end.at(-1)) end[end.length - 1] = Math.max(end.at(-1), row.start);
    else {
      start.push(row.from);
      end.push(row.start);
    }
  }
  return { start: Float64Array.from(start), end: Float64Array.from(end) };
}
