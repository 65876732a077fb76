-- A schedule enqueues a job whenever its moment comes.  next_at is empty while it is paused.

CREATE TABLE schedule (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    expression TEXT NOT NULL,
    timezone TEXT NOT NULL,
    overlap TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    job TEXT NOT NULL,
    ttl BIGINT,
    meta TEXT NOT NULL,
    created BIGINT NOT NULL,
    next_at BIGINT,
    last_at BIGINT,
    last_job TEXT,
    fired BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE INDEX schedule_next ON schedule (next_at);
