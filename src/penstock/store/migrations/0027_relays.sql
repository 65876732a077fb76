-- The job after whose attempt this one begins, in a relay; 0 if it begins at once.

ALTER TABLE running ADD COLUMN follows BIGINT NOT NULL DEFAULT 0;
