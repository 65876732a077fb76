-- A limit may have a cost of its own.
--
--   costs  of a job, in the order of its limits' keys: what a start weighs at each; empty if that is `cost` at all.  In
--          lane it is of the first job, in turn of the holder, and in running what the gates remember of the attempt
--   paced  whether a throttle keeps starts apart at this gate, so that heavy ones are remembered for longer; empty if
--          that is unknown

ALTER TABLE job ADD COLUMN costs TEXT;
ALTER TABLE lane_job ADD COLUMN costs TEXT;
ALTER TABLE lane ADD COLUMN costs TEXT;
ALTER TABLE turn ADD COLUMN costs TEXT;
ALTER TABLE running ADD COLUMN costs TEXT;
ALTER TABLE gate_memory ADD COLUMN paced BIGINT;
