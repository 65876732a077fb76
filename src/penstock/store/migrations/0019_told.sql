-- At which gate a job that waits was told to be blocked; 0 if that was not told.

ALTER TABLE lane_job ADD COLUMN told BIGINT NOT NULL DEFAULT 0;
