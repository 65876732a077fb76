CREATE TABLE anchor (
    boot TEXT NOT NULL,
    since_epoch BIGINT NOT NULL
);

CREATE TABLE asking (
    gate BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    holder BIGINT NOT NULL,
    want BIGINT NOT NULL,
    own TEXT NOT NULL,
    slots BIGINT NOT NULL,
    most BIGINT NOT NULL,
    given BIGINT NOT NULL,
    PRIMARY KEY (gate, ord)
);

CREATE INDEX asking_holder ON asking (holder, given);

CREATE TABLE attempt (
    seq BIGINT NOT NULL,
    number BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    started BIGINT,
    began BIGINT,
    ended BIGINT NOT NULL,
    worker TEXT NOT NULL,
    gates TEXT NOT NULL,
    behind BIGINT,
    reason TEXT NOT NULL,
    error TEXT,
    retried BIGINT,
    PRIMARY KEY (seq, number)
);

CREATE INDEX attempt_ended ON attempt (ended, seq, number);

CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at BIGINT NOT NULL,
    who TEXT NOT NULL,
    through TEXT NOT NULL,
    verb TEXT NOT NULL,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    before TEXT,
    after TEXT,
    reason TEXT NOT NULL,
    touched BIGINT NOT NULL
);

CREATE INDEX audit_at ON audit (at);

CREATE INDEX audit_subject ON audit (kind, subject, number);

CREATE INDEX audit_tenant ON audit (tenant, number);

CREATE INDEX audit_who ON audit (who, number);

CREATE TABLE counter (value BIGINT NOT NULL);

CREATE TABLE deadline (
    seq INTEGER PRIMARY KEY,
    fence BIGINT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE done (
    seq INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    finished BIGINT NOT NULL,
    started BIGINT,
    attempt BIGINT NOT NULL,
    result TEXT,
    error TEXT,
    reason TEXT NOT NULL
, lost BIGINT, began BIGINT, worker TEXT, gates TEXT, behind BIGINT);

CREATE INDEX done_finished ON done (finished);

CREATE TABLE door (
    seq INTEGER PRIMARY KEY,
    attempt BIGINT NOT NULL,
    lost BIGINT NOT NULL
, replaces BIGINT, due BIGINT NOT NULL DEFAULT 0);

CREATE TABLE expiry (
    seq INTEGER PRIMARY KEY,
    at BIGINT NOT NULL
);

CREATE INDEX expiry_at ON expiry (at);

CREATE TABLE failure (
    seq BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    at BIGINT NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (seq, attempt)
);

CREATE TABLE floating (
    gate INTEGER PRIMARY KEY,
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
, idle BIGINT NOT NULL DEFAULT 0, asked BIGINT NOT NULL DEFAULT 0, least BIGINT NOT NULL DEFAULT 0, most BIGINT);

CREATE INDEX floating_due ON floating (next_at) WHERE idle = 0;

CREATE TABLE floating_use (
    gate BIGINT NOT NULL,
    queue TEXT NOT NULL,
    handler TEXT NOT NULL,
    PRIMARY KEY (gate, queue, handler)
);

CREATE TABLE gate (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    running BIGINT NOT NULL,
    lanes BIGINT NOT NULL,
    rules TEXT, own TEXT, asking BIGINT NOT NULL DEFAULT 0, member_of TEXT,
    UNIQUE (kind, tenant, name)
);

CREATE INDEX gate_ruled ON gate (kind, name) WHERE rules IS NOT NULL;

CREATE TABLE gate_memory (
    gate INTEGER PRIMARY KEY,
    span BIGINT NOT NULL,
    heavy BIGINT NOT NULL,
    kept_until BIGINT NOT NULL,
    starts BLOB NOT NULL
, paced BIGINT, gap BIGINT, folded_at BIGINT NOT NULL DEFAULT 0, due BIGINT NOT NULL DEFAULT 0);

CREATE TABLE held (
    holder BIGINT NOT NULL,
    gate BIGINT NOT NULL,
    slots BIGINT NOT NULL,
    PRIMARY KEY (holder, gate)
);

CREATE INDEX held_gate ON held (gate);

CREATE TABLE holder (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    lease BIGINT NOT NULL
);

CREATE INDEX holder_lease ON holder (lease);

CREATE TABLE instance (
    seq INTEGER PRIMARY KEY,
    workflow TEXT NOT NULL,
    sequence BIGINT,
    queue TEXT NOT NULL,
    context TEXT,
    paused BIGINT NOT NULL DEFAULT 0,
    ending TEXT,
    version BIGINT NOT NULL DEFAULT 0,
    pass BIGINT,
    pass_version BIGINT NOT NULL DEFAULT 0,
    parent BIGINT
);

CREATE INDEX instance_sequence ON instance (sequence) WHERE sequence IS NOT NULL;

CREATE INDEX instance_workflow ON instance (workflow, seq);

CREATE TABLE instance_job (
    seq INTEGER PRIMARY KEY,
    instance BIGINT NOT NULL,
    key TEXT NOT NULL,
    child BIGINT NOT NULL DEFAULT 0,
    frozen BIGINT
);

CREATE INDEX instance_job_of ON instance_job (instance, key);

CREATE TABLE instance_step (
    instance BIGINT NOT NULL,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    job TEXT,
    result TEXT,
    error TEXT,
    frame TEXT,
    began BIGINT NOT NULL,
    ended BIGINT,
    PRIMARY KEY (instance, key)
);

CREATE INDEX instance_step_live ON instance_step (instance) WHERE state = 'live';

CREATE TABLE instance_timer (
    instance BIGINT NOT NULL,
    key TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (instance, key)
);

CREATE INDEX instance_timer_at ON instance_timer (at);

CREATE TABLE instance_wait (
    instance BIGINT NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    place BIGINT NOT NULL,
    PRIMARY KEY (instance, key)
);

CREATE INDEX instance_wait_name ON instance_wait (instance, name, place);

CREATE INDEX instance_wait_of_name ON instance_wait (name, place);

CREATE TABLE "job" (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
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
, costs TEXT);

CREATE UNIQUE INDEX job_id ON job (id, tenant);

CREATE TABLE lane (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    gates TEXT NOT NULL,
    head BIGINT,
    priority BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    behind BIGINT,
    line TEXT,
    ready BIGINT NOT NULL
, tenant TEXT NOT NULL DEFAULT '', costs TEXT, part TEXT NOT NULL DEFAULT '');

CREATE INDEX lane_dormant ON lane (behind, line) WHERE ready = 0 AND behind IS NOT NULL;

CREATE INDEX lane_empty ON lane (id) WHERE head IS NULL;

CREATE INDEX lane_line ON lane (line, priority DESC, ord) WHERE line IS NOT NULL;

CREATE INDEX lane_part ON lane (queue, part) WHERE part <> '';

CREATE INDEX lane_ready ON lane (queue, tenant, part, priority DESC, ord) WHERE ready = 1;

CREATE INDEX lane_tenant ON lane (tenant) WHERE tenant <> '';

CREATE TABLE lane_gate (
    gate BIGINT NOT NULL,
    lane BIGINT NOT NULL,
    PRIMARY KEY (gate, lane)
);

CREATE TABLE "lane_job" (
    seq INTEGER PRIMARY KEY,
    lane BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    refused BIGINT NOT NULL
, costs TEXT, told BIGINT NOT NULL DEFAULT 0);

CREATE INDEX lane_job_order ON lane_job (lane, priority DESC, ord);

CREATE TABLE lane_name (
    lane INTEGER PRIMARY KEY,
    signature TEXT NOT NULL UNIQUE
);

CREATE TABLE own_lease (
    seq INTEGER PRIMARY KEY,
    lease BIGINT NOT NULL
);

CREATE TABLE pool (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    ordering TEXT NOT NULL,
    slots BIGINT,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE pool_queue (
    queue TEXT NOT NULL,
    tenant TEXT NOT NULL,
    pool TEXT NOT NULL,
    place BIGINT NOT NULL,
    weight BIGINT NOT NULL,
    gate BIGINT,
    PRIMARY KEY (queue, tenant, pool)
);

CREATE TABLE progress (
    seq INTEGER PRIMARY KEY,
    value TEXT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE queue_bound (
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    max_depth BIGINT NOT NULL,
    strategy TEXT NOT NULL,
    warning BIGINT,
    PRIMARY KEY (queue, tenant)
);

CREATE TABLE queue_pause (
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (queue, tenant)
);

CREATE TABLE rate_resource (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    created BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    PRIMARY KEY (tenant, key)
);

CREATE TABLE ready (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lost BIGINT NOT NULL
, part TEXT NOT NULL DEFAULT '');

CREATE INDEX ready_order ON ready (queue, part, priority DESC, ord);

CREATE TABLE receipt (
    connection TEXT PRIMARY KEY,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE resource (
    group_gate BIGINT NOT NULL,
    key TEXT NOT NULL,
    gate BIGINT NOT NULL,
    number BIGINT NOT NULL,
    config TEXT NOT NULL,
    days TEXT NOT NULL,
    place BIGINT NOT NULL, created BIGINT NOT NULL DEFAULT 0, updated BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (group_gate, key)
);

CREATE INDEX resource_by_gate ON resource (gate);

CREATE TABLE resource_group (
    gate INTEGER PRIMARY KEY,
    strategy TEXT NOT NULL,
    place BIGINT NOT NULL
, created BIGINT NOT NULL DEFAULT 0, updated BIGINT NOT NULL DEFAULT 0);

CREATE TABLE running (
    seq INTEGER PRIMARY KEY,
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
, has_successor BIGINT NOT NULL DEFAULT 0, behind BIGINT, costs TEXT, resource TEXT, counted TEXT, follows BIGINT NOT NULL DEFAULT 0);

CREATE INDEX running_lease ON running (lease);

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
    fired BIGINT NOT NULL, sequence BIGINT,
    PRIMARY KEY (tenant, name)
);

CREATE INDEX schedule_next ON schedule (next_at);

CREATE TABLE scheduled (
    seq INTEGER PRIMARY KEY,
    due BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lost BIGINT NOT NULL
, reason TEXT, signature TEXT, tenant TEXT NOT NULL DEFAULT '');

CREATE INDEX scheduled_due ON scheduled (due, seq);

CREATE INDEX scheduled_signature ON scheduled (signature, seq) WHERE signature IS NOT NULL;

CREATE INDEX scheduled_tenant ON scheduled (tenant) WHERE tenant <> '';

CREATE TABLE schema_version (version BIGINT NOT NULL);

CREATE TABLE sequence (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    definition TEXT NOT NULL,
    created BIGINT NOT NULL,
    deprecated BIGINT NOT NULL DEFAULT 0,
    id TEXT NOT NULL,
    UNIQUE (tenant, namespace, name, version)
);

CREATE UNIQUE INDEX sequence_id ON sequence (id, tenant);

CREATE TABLE served (
    queue TEXT NOT NULL,
    tenant TEXT NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (queue, tenant)
);

CREATE INDEX served_last ON served (queue, number);

CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE signal (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    instance BIGINT NOT NULL,
    name TEXT NOT NULL,
    payload TEXT NOT NULL,
    at BIGINT NOT NULL
);

CREATE INDEX signal_name ON signal (instance, name, number);

CREATE TABLE successor (
    seq INTEGER PRIMARY KEY,
    earlier BIGINT NOT NULL UNIQUE,
    ord BIGINT NOT NULL,
    due BIGINT NOT NULL
);

CREATE TABLE task_part (
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    part TEXT NOT NULL,
    refused_at BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    PRIMARY KEY (queue, task)
);

CREATE TABLE tenant (
    name TEXT PRIMARY KEY,
    max_waiting BIGINT,
    max_scheduled BIGINT,
    rate_limit BIGINT,
    rate_period BIGINT
);

CREATE TABLE tenant_arrivals (
    tenant TEXT PRIMARY KEY,
    span BIGINT NOT NULL,
    starts BLOB NOT NULL
);

CREATE TABLE turn (
    gate INTEGER PRIMARY KEY,
    seq BIGINT NOT NULL,
    lane BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    until BIGINT
, costs TEXT);

CREATE TABLE uniqueness (
    key TEXT NOT NULL,
    seq BIGINT NOT NULL,
    states TEXT NOT NULL,
    until BIGINT, since BIGINT,
    PRIMARY KEY (key, seq)
);

CREATE INDEX uniqueness_seq ON uniqueness (seq);

CREATE TABLE wake (
    gate INTEGER PRIMARY KEY,
    at BIGINT NOT NULL
);

CREATE INDEX wake_at ON wake (at);

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

CREATE TABLE worker (
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    heard BIGINT NOT NULL,
    facts TEXT NOT NULL,
    PRIMARY KEY (name, tenant)
);

CREATE INDEX worker_heard ON worker (heard);

CREATE TABLE workflow (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    meta TEXT NOT NULL,
    created BIGINT NOT NULL,
    finished BIGINT,
    state TEXT NOT NULL,
    total BIGINT NOT NULL,
    unfinished BIGINT NOT NULL,
    completed BIGINT NOT NULL,
    failed BIGINT NOT NULL
);

CREATE INDEX workflow_finished ON workflow (finished) WHERE finished IS NOT NULL;

CREATE INDEX workflow_tenant ON workflow (tenant, number);

CREATE TABLE workflow_job (
    seq INTEGER PRIMARY KEY,
    workflow BIGINT NOT NULL,
    step BIGINT NOT NULL
, started BIGINT);

CREATE INDEX workflow_job_started ON workflow_job (workflow, started) WHERE started IS NOT NULL;

CREATE TABLE workflow_plan (
    step INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    job TEXT NOT NULL,
    parents TEXT NOT NULL
, results TEXT);

CREATE TABLE workflow_step (
    number INTEGER PRIMARY KEY,
    workflow BIGINT NOT NULL,
    state TEXT NOT NULL,
    runs TEXT NOT NULL,
    callback BIGINT NOT NULL,
    waiting BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    seq BIGINT,
    job TEXT,
    children TEXT NOT NULL,
    result TEXT
, opening BIGINT);

CREATE INDEX workflow_step_failed ON workflow_step (workflow) WHERE state = 'failed';

CREATE INDEX workflow_step_of ON workflow_step (workflow, number);

