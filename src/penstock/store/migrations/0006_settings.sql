-- What operators decided that is neither a job's nor a gate's: maintenance, what tenants may use, what workers are to do.

CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    at BIGINT NOT NULL
);
