-- The jobs that wait with limits stand in lanes.  A line is something else: the lanes behind one gate.

ALTER TABLE line RENAME TO lane_job;

DROP INDEX line_order;
CREATE INDEX lane_job_order ON lane_job (lane, priority DESC, ord);

-- on PostgreSQL: ALTER INDEX line_pkey RENAME TO lane_job_pkey;
