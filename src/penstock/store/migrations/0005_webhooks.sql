-- Addresses that are told over HTTP of what happens.  Names in events, queues and tasks are JSON lists; empty means any.
-- A previous secret signs too, until its time is over.

CREATE TABLE webhook (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    queues TEXT NOT NULL,
    tasks TEXT NOT NULL,
    active BIGINT NOT NULL,
    secret TEXT NOT NULL,
    previous TEXT NOT NULL,
    previous_until BIGINT NOT NULL,
    meta TEXT NOT NULL,
    created BIGINT NOT NULL,
    changed BIGINT NOT NULL
);
