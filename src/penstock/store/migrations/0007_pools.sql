-- A pool is a set of queues from which workers fetch in one order; together they may have a number of slots.
--
--   pool        what it is called, how workers choose between its queues
--   pool_queue  its queues; gate is where their jobs take a slot, empty if there is no number
--
-- A gate remembers in own which numbers the last lane brought that passed it, for those who look at it later.

CREATE TABLE pool (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    ordering TEXT NOT NULL,
    slots BIGINT,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE pool_queue (
    queue TEXT NOT NULL,
    tenant TEXT NOT NULL,
    pool TEXT NOT NULL,
    place BIGINT NOT NULL,
    weight BIGINT NOT NULL,
    gate BIGINT,
    PRIMARY KEY (queue, tenant, pool)
);

ALTER TABLE gate ADD COLUMN own TEXT;
