-- What servers add: leases and deadlines of single jobs, and how full a queue may become.
--
--   own_lease  how long a job's worker may keep it without being heard from, where the job says so
--   deadline   when an attempt has taken too long, where the store itself ends it; of an older fence it is void
--   bound      how many jobs may wait in a queue

CREATE TABLE own_lease (
    seq BIGINT PRIMARY KEY,
    lease BIGINT NOT NULL
);

CREATE TABLE deadline (
    seq BIGINT PRIMARY KEY,
    fence BIGINT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE bound (
    queue TEXT PRIMARY KEY,
    max_depth BIGINT NOT NULL,
    strategy TEXT NOT NULL,
    warning BIGINT
);
