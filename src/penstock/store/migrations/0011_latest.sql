-- The latest call of a unique key wins.
--
--   successor  waits for the job named in earlier, which runs, and then stands in line at the place ord, unless it
--              is not due yet (0: it is due at once)
--
-- A running attempt says in has_successor that there may be one, so that its end need not look for others.
-- A job at the door takes the place of the one it replaces once it is let in, and is due then (0: at once).
-- A unique job that waits for a pause in the calls knows since when they have come.

CREATE TABLE successor (
    seq BIGINT PRIMARY KEY,
    earlier BIGINT NOT NULL UNIQUE,
    ord BIGINT NOT NULL,
    due BIGINT NOT NULL
);

ALTER TABLE running ADD COLUMN has_successor BIGINT NOT NULL DEFAULT 0;
ALTER TABLE door ADD COLUMN replaces BIGINT;
ALTER TABLE door ADD COLUMN due BIGINT NOT NULL DEFAULT 0;
ALTER TABLE uniqueness ADD COLUMN since BIGINT;
