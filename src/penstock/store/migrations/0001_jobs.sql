-- A job changes state by moving between small tables, never by updating a state column.
--
--   job        what was asked for; written once
--   scheduled  not due yet
--   ready      waiting, without limits
--   line       waiting, with limits: stands in a lane
--   door       waiting, with limits: will stand in a lane once a transaction holds the gates
--   running    claimed under a lease
--   done       ended: done, failed, discarded, cancelled or expired
--
-- A lane is the waiting jobs of one queue that carry exactly the same limits.  A gate is what is
-- remembered for one (tenant, key).  Times are microseconds since the epoch.

CREATE TABLE job (
    seq BIGINT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    args TEXT NOT NULL,
    priority BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    limits TEXT NOT NULL,
    retry TEXT NOT NULL,
    timeout BIGINT,
    expires BIGINT,
    meta TEXT NOT NULL,
    uniqueness TEXT,
    enqueued BIGINT NOT NULL
);

CREATE TABLE scheduled (
    seq BIGINT PRIMARY KEY,
    due BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lost BIGINT NOT NULL
);
CREATE INDEX scheduled_due ON scheduled (due, seq);

CREATE TABLE ready (
    seq BIGINT PRIMARY KEY,
    queue TEXT NOT NULL,
    priority BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lost BIGINT NOT NULL
);
CREATE INDEX ready_order ON ready (queue, priority DESC, ord);

CREATE TABLE line (
    seq BIGINT PRIMARY KEY,
    lane BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    refused BIGINT NOT NULL
);
CREATE INDEX line_order ON line (lane, priority DESC, ord);

CREATE TABLE door (
    seq BIGINT PRIMARY KEY,
    attempt BIGINT NOT NULL,
    lost BIGINT NOT NULL
);

CREATE TABLE running (
    seq BIGINT PRIMARY KEY,
    fence BIGINT NOT NULL,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    worker TEXT NOT NULL,
    lease BIGINT NOT NULL,
    started BIGINT NOT NULL,
    begin_by BIGINT NOT NULL,
    gates TEXT NOT NULL,
    cost BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    cancel BIGINT NOT NULL
);
CREATE INDEX running_lease ON running (lease);

CREATE TABLE done (
    seq BIGINT PRIMARY KEY,
    state TEXT NOT NULL,
    finished BIGINT NOT NULL,
    started BIGINT,
    attempt BIGINT NOT NULL,
    result TEXT,
    error TEXT,
    reason TEXT NOT NULL
);
CREATE INDEX done_finished ON done (finished);

CREATE TABLE failure (
    seq BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    at BIGINT NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (seq, attempt)
);

CREATE TABLE progress (
    seq BIGINT PRIMARY KEY,
    value TEXT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE expiry (
    seq BIGINT PRIMARY KEY,
    at BIGINT NOT NULL
);
CREATE INDEX expiry_at ON expiry (at);

CREATE TABLE uniqueness (
    key TEXT NOT NULL,
    seq BIGINT NOT NULL,
    states TEXT NOT NULL,
    until BIGINT,
    PRIMARY KEY (key, seq)
);
CREATE INDEX uniqueness_seq ON uniqueness (seq);

CREATE TABLE lane (
    id BIGINT PRIMARY KEY,
    queue TEXT NOT NULL,
    gates TEXT NOT NULL,
    head BIGINT,
    priority BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    behind BIGINT,
    line TEXT,
    ready BIGINT NOT NULL
);
CREATE INDEX lane_ready ON lane (queue, priority DESC, ord) WHERE ready = 1;
CREATE INDEX lane_line ON lane (line, priority DESC, ord) WHERE line IS NOT NULL;
CREATE INDEX lane_dormant ON lane (behind, line) WHERE ready = 0 AND behind IS NOT NULL;
CREATE INDEX lane_empty ON lane (id) WHERE head IS NULL;

CREATE TABLE lane_name (
    lane BIGINT PRIMARY KEY,
    signature TEXT NOT NULL UNIQUE
);

CREATE TABLE lane_gate (
    gate BIGINT NOT NULL,
    lane BIGINT NOT NULL,
    PRIMARY KEY (gate, lane)
);

CREATE TABLE gate (
    id BIGINT PRIMARY KEY,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    running BIGINT NOT NULL,
    lanes BIGINT NOT NULL,
    rules TEXT,
    UNIQUE (kind, tenant, name)
);
CREATE INDEX gate_ruled ON gate (kind, name) WHERE rules IS NOT NULL;

CREATE TABLE gate_memory (
    gate BIGINT PRIMARY KEY,
    span BIGINT NOT NULL,
    heavy BIGINT NOT NULL,
    kept_until BIGINT NOT NULL,
    starts BYTEA NOT NULL
);

CREATE TABLE wake (
    gate BIGINT PRIMARY KEY,
    at BIGINT NOT NULL
);
CREATE INDEX wake_at ON wake (at);

CREATE TABLE turn (
    gate BIGINT PRIMARY KEY,
    seq BIGINT NOT NULL,
    lane BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    until BIGINT
);

CREATE TABLE floating (
    gate BIGINT PRIMARY KEY,
    handler TEXT NOT NULL,
    initial BIGINT NOT NULL,
    every BIGINT NOT NULL,
    metadata TEXT NOT NULL,
    refreshed BIGINT,
    next_at BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    error TEXT NOT NULL,
    fence BIGINT NOT NULL,
    worker TEXT NOT NULL
);
CREATE INDEX floating_next ON floating (next_at);

CREATE TABLE paused (
    queue TEXT PRIMARY KEY,
    at BIGINT NOT NULL
);

CREATE TABLE receipt (
    connection TEXT PRIMARY KEY,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE anchor (
    boot TEXT NOT NULL,
    since_epoch BIGINT NOT NULL
);

-- Rows that come and go leave dead ones behind, which every scan must pass: clean up soon and quickly.  Rows
-- that are updated again and again stay on their page if there is room.
-- on PostgreSQL: ALTER TABLE scheduled SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- on PostgreSQL: ALTER TABLE ready SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- on PostgreSQL: ALTER TABLE line SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- on PostgreSQL: ALTER TABLE door SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- on PostgreSQL: ALTER TABLE running SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- on PostgreSQL: ALTER TABLE lane SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- on PostgreSQL: ALTER TABLE gate SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- on PostgreSQL: ALTER TABLE gate_memory SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- on PostgreSQL: ALTER TABLE wake SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- on PostgreSQL: ALTER TABLE turn SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- on PostgreSQL: ALTER TABLE receipt SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
-- on PostgreSQL: ALTER TABLE gate SET (fillfactor = 50);
-- on PostgreSQL: ALTER TABLE gate_memory SET (fillfactor = 50);
-- on PostgreSQL: ALTER TABLE lane SET (fillfactor = 50);
-- on PostgreSQL: ALTER TABLE wake SET (fillfactor = 50);
-- on PostgreSQL: ALTER TABLE turn SET (fillfactor = 50);
-- on PostgreSQL: ALTER TABLE running SET (fillfactor = 50);
