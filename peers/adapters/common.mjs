// What the adapters in JavaScript share; common.py says how an adapter is spoken to.

import { once } from "node:events";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const GLANCE = 2; // milliseconds between two looks at the handlers' count
const POLL = 5; // milliseconds between two looks at the store
const WATCH = 250; // the same while others work, whom a look takes from
const PER_CALL = 1_000; // jobs in one call

// Packages are found in the folder where the adapter is started, not beside this file.
const require = createRequire(`${process.cwd()}/`);

export async function load(name) {
  const found = await import(require.resolve(name));
  return { ...found, ...found.default };
}

export const now = () => Number(process.hrtime.bigint());

export class Witness {
  began = 0;
  first = 0;
  begun = 0;
  overlaps = 0;
  starts = [];
  spans = []; // key, begin and end of those with a key, to be laid beside those of other processes
  #order;
  #running = new Map();

  constructor(order) {
    this.#order = order;
  }

  async run(kind, number = 0) {
    const began = this.#enter(kind, number);
    if (kind === "keyed") {
      await sleep(this.#order.milliseconds);
      this.#add(number, -1);
      this.spans.push([number, began, now()]);
    } else if (kind === "busy") {
      await sleep(3_600_000);
    }
  }

  get seenEnough() {
    if (this.#order.until) return this.begun >= this.#order.until;
    if (this.#order.seconds) return this.first > 0 && now() - this.first > this.#order.seconds * 1e9;
    return told;
  }

  #enter(kind, number) {
    const began = now();
    if (kind !== "busy") {
      this.begun += 1;
      this.first ||= began;
    }
    if (kind === "keyed" || kind === "busy") {
      this.overlaps += this.#add(kind === "keyed" ? number : kind, 1) > 1;
    } else if (kind !== "noop") {
      this.starts.push([number, began]);
    }
    return began;
  }

  #add(key, change) {
    const count = (this.#running.get(key) ?? 0) + change;
    this.#running.set(key, count);
    return count;
  }
}

let input;
let told = false; // that there is no more input

async function nextLine() {
  const [line] = await once(input, "line");
  return line;
}

export async function main(Adapter) {
  // Not earlier, because lines that nobody waits for are lost.
  input = createInterface({ input: process.stdin }).on("close", () => (told = true));
  const order = JSON.parse(await nextLine());
  const facts = await { install, enqueue, send, watch, work }[order.verb](new Adapter(order), order);
  tell(facts, () => process.exit(0));
}

function tell(facts, after) {
  process.stdout.write(`${JSON.stringify(facts)}\n`, after);
}

async function install(adapter) {
  await adapter.install();
  return {};
}

async function enqueue(adapter, order) {
  await adapter.connect(order.callers);
  let spent = 0;
  for (const [kind, numbers] of order.jobs) {
    const began = now();
    if (order.callers > 1) {
      const shares = Array.from({ length: order.callers }, (_, caller) =>
        numbers.filter((_, place) => place % order.callers === caller),
      );
      await Promise.all(shares.map((share) => oneByOne(adapter, kind, share)));
    } else if (order.bulk) {
      for (let start = 0; start < numbers.length; start += PER_CALL) {
        await adapter.many(kind, numbers.slice(start, start + PER_CALL));
      }
    } else {
      await oneByOne(adapter, kind, numbers);
    }
    spent += now() - began;
  }
  return { seconds: spent / 1e9 };
}

async function oneByOne(adapter, kind, numbers) {
  for (const number of numbers) await adapter.one(kind, number);
}

async function send(adapter, order) {
  await adapter.connect(1);
  const before = [];
  for (const [number, pause] of order.pauses.entries()) {
    await sleep(pause * 1_000);
    before.push(now());
    await adapter.one("stamped", number);
  }
  return { before };
}

// Wait until nothing is left of what others do.
async function watch(adapter, order) {
  await adapter.connect(1);
  const deadline = now() + order.bound * 1e9;
  let left = true;
  while ((left = await adapter.left()) && now() < deadline) await sleep(WATCH);
  return { whole: !left };
}

async function work(adapter, order) {
  const witness = new Witness(order);
  await adapter.connect(1);
  if (order.together) {
    // What is measured is work, not the start of processes: all begin at one word.
    tell({ connected: true });
    await nextLine();
  }
  const deadline = now() + order.bound * 1e9;
  witness.began = now();
  await adapter.work(witness);
  tell({ ready: true });
  while (!witness.seenEnough && now() < deadline) await sleep(GLANCE);
  let whole = witness.seenEnough;
  // What is left is asked only now, so that asking costs the handlers nothing.
  while (!(order.seconds || order.together) && whole && (await adapter.left())) {
    await sleep(POLL);
    whole = now() < deadline;
  }
  const { began, first, begun, overlaps, starts, spans } = witness;
  return { began, first, ended: now(), begun, whole, overlaps, starts, spans };
}
