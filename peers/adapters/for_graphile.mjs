// graphile-worker: a key is a named queue, whose jobs run one after another.

import { load, main } from "./common.mjs";

const worker = await load("graphile-worker");

const QUIET = new worker.Logger(() => () => {});
const LEFT = `SELECT EXISTS (
  SELECT FROM graphile_worker._private_jobs AS job JOIN graphile_worker._private_tasks AS task ON task.id = job.task_id
  WHERE task.identifier <> 'busy') AS left`;

class Graphile {
  constructor(order) {
    this.order = order;
  }

  async install() {
    await this.connect(1);
    await this.utils.migrate();
  }

  async connect(callers) {
    this.utils = await worker.makeWorkerUtils({
      preset: { worker: { connectionString: this.order.url, maxPoolSize: Math.max(callers, 2), logger: QUIET } },
    });
  }

  async one(kind, number) {
    await this.utils.addJob(kind, { number }, { queueName: queueOf(kind, number) });
  }

  async many(kind, numbers) {
    await this.utils.addJobs(
      numbers.map((number) => ({ identifier: kind, payload: { number }, queueName: queueOf(kind, number) })),
    );
  }

  async work(witness) {
    const handle = (kind) => (payload) => witness.run(kind, payload.number);
    await worker.run({
      preset: { worker: { connectionString: this.order.url, logger: QUIET, ...this.order.settings } },
      taskList: Object.fromEntries(this.order.kinds.map((kind) => [kind, handle(kind)])),
      noHandleSignals: true,
    });
  }

  async left() {
    return (await this.utils.withPgClient((client) => client.query(LEFT))).rows[0].left;
  }
}

function queueOf(kind, number) {
  if (kind === "keyed") return `key-${number}`;
  return kind === "busy" ? "busy" : undefined;
}

await main(Graphile);
