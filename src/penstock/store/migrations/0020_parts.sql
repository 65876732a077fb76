-- Tasks whose jobs stand apart in a queue, because a claim met one of them and did not know it.
CREATE TABLE task_part (
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    part TEXT NOT NULL,
    refused_at BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    PRIMARY KEY (queue, task)
);

-- In which part of its queue it is: what the part of its task is called, or empty for the part that has all others.
ALTER TABLE ready ADD COLUMN part TEXT NOT NULL DEFAULT '';
DROP INDEX ready_order;
CREATE INDEX ready_order ON ready (queue, part, priority DESC, ord);

ALTER TABLE lane ADD COLUMN part TEXT NOT NULL DEFAULT '';
DROP INDEX lane_ready;
CREATE INDEX lane_ready ON lane (queue, tenant, part, priority DESC, ord) WHERE ready = 1;
CREATE INDEX lane_part ON lane (queue, part) WHERE part <> '';

-- A server that has no statistics of the new column believes that one part has hardly a job, and would sort all jobs of
-- a queue in each claim.  It keeps what it learns here until the table has changed enough to be looked at again.
-- on PostgreSQL: INSERT INTO ready (seq, queue, priority, ord, cost, attempt, lost) SELECT -n, 'none', 0, 0, 1, 0, 0 FROM generate_series(1, 100) AS n;
-- on PostgreSQL: ANALYZE ready (part);
-- on PostgreSQL: DELETE FROM ready WHERE seq < 0;
