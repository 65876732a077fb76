-- A throttle may let bursts through: a bucket that is filled at an even pace.
--
--   gap        the pace by which the bucket is remembered: the slowest of those that were asked for; empty if there is none
--   folded_at  the last of the starts that are listed no more, 0 if there was none
--   due        when the bucket would be full, as far as those starts matter

ALTER TABLE gate_memory ADD COLUMN gap BIGINT;
ALTER TABLE gate_memory ADD COLUMN folded_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE gate_memory ADD COLUMN due BIGINT NOT NULL DEFAULT 0;
