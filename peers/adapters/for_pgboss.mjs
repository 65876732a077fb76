// pg-boss: a key is the singletonKey of a queue of policy key_strict_fifo, where every job must have one.

import { load, main } from "./common.mjs";

const { PgBoss } = await load("pg-boss");
const pg = await load("pg");

const LEFT = `SELECT EXISTS (
  SELECT FROM pgboss.job WHERE state < 'completed' AND singleton_key IS DISTINCT FROM 'busy') AS left`;

class Boss {
  constructor(order) {
    this.order = order;
    const { policy = "standard", notify = false, ...work } = order.settings;
    this.queue = { policy, notify };
    this.settings = work;
  }

  async install() {
    await this.connect(1);
    await this.boss.createQueue("bench", this.queue);
  }

  async connect(callers) {
    this.boss = new PgBoss({
      connectionString: this.order.url,
      max: Math.max(callers, 10),
      schedule: false,
      useListenNotify: this.order.verb === "work",
    });
    this.boss.on("error", (error) => console.error(error));
    await this.boss.start();
    this.client = new pg.Client(this.order.url);
    await this.client.connect();
  }

  async one(kind, number) {
    await this.boss.send("bench", { kind, number }, this.options(kind, number));
  }

  async many(kind, numbers) {
    await this.boss.insert(
      "bench",
      numbers.map((number) => ({ data: { kind, number }, ...this.options(kind, number) })),
    );
  }

  async work(witness) {
    // A batch ends as one, so the job that holds the busy key must not be in a batch with others.
    if (this.order.kinds.includes("busy")) await this.boss.fetch("bench");
    await this.boss.work("bench", this.settings, (jobs) =>
      Promise.all(jobs.map(({ data }) => witness.run(data.kind, data.number))),
    );
  }

  async left() {
    return (await this.client.query(LEFT)).rows[0].left;
  }

  options(kind, number) {
    if (this.queue.policy === "standard") return {};
    return { singletonKey: kind === "busy" ? "busy" : `${kind}-${number}` };
  }
}

await main(Boss);
