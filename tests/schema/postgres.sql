CREATE SEQUENCE number;

CREATE TABLE anchor (
    boot text COLLATE "C" NOT NULL,
    since_epoch bigint NOT NULL
);

CREATE TABLE asking (
    gate bigint NOT NULL,
    ord bigint NOT NULL,
    holder bigint NOT NULL,
    want bigint NOT NULL,
    own text COLLATE "C" NOT NULL,
    slots bigint NOT NULL,
    most bigint NOT NULL,
    given bigint NOT NULL,
    CONSTRAINT asking_pkey PRIMARY KEY (gate, ord)
);
CREATE INDEX asking_holder ON asking USING btree (holder, given);

CREATE TABLE attempt (
    seq bigint NOT NULL,
    number bigint NOT NULL,
    attempt bigint NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    started bigint,
    began bigint,
    ended bigint NOT NULL,
    worker text COLLATE "C" NOT NULL,
    gates text COLLATE "C" NOT NULL,
    behind bigint,
    reason text COLLATE "C" NOT NULL,
    error text COLLATE "C",
    retried bigint,
    CONSTRAINT attempt_pkey PRIMARY KEY (seq, number)
);
CREATE INDEX attempt_ended ON attempt USING btree (ended, seq, number);

CREATE TABLE audit (
    number bigint NOT NULL,
    at bigint NOT NULL,
    who text COLLATE "C" NOT NULL,
    through text COLLATE "C" NOT NULL,
    verb text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    before text COLLATE "C",
    after text COLLATE "C",
    reason text COLLATE "C" NOT NULL,
    touched bigint NOT NULL,
    CONSTRAINT audit_pkey PRIMARY KEY (number)
);
CREATE INDEX audit_at ON audit USING btree (at);
CREATE INDEX audit_subject ON audit USING btree (kind, subject, number);
CREATE INDEX audit_tenant ON audit USING btree (tenant, number);
CREATE INDEX audit_who ON audit USING btree (who, number);

CREATE TABLE deadline (
    seq bigint NOT NULL,
    fence bigint NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT deadline_pkey PRIMARY KEY (seq)
);

CREATE TABLE done (
    seq bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    finished bigint NOT NULL,
    started bigint,
    attempt bigint NOT NULL,
    result text COLLATE "C",
    error text COLLATE "C",
    reason text COLLATE "C" NOT NULL,
    lost bigint,
    began bigint,
    worker text COLLATE "C",
    gates text COLLATE "C",
    behind bigint,
    CONSTRAINT done_pkey PRIMARY KEY (seq)
);
CREATE INDEX done_finished ON done USING btree (finished);

CREATE TABLE door (
    seq bigint NOT NULL,
    attempt bigint NOT NULL,
    lost bigint NOT NULL,
    replaces bigint,
    due bigint NOT NULL DEFAULT 0,
    CONSTRAINT door_pkey PRIMARY KEY (seq)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0);

CREATE TABLE expiry (
    seq bigint NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT expiry_pkey PRIMARY KEY (seq)
);
CREATE INDEX expiry_at ON expiry USING btree (at);

CREATE TABLE failure (
    seq bigint NOT NULL,
    attempt bigint NOT NULL,
    at bigint NOT NULL,
    error text COLLATE "C" NOT NULL,
    CONSTRAINT failure_pkey PRIMARY KEY (seq, attempt)
);

CREATE TABLE floating (
    gate bigint NOT NULL,
    handler text COLLATE "C" NOT NULL,
    initial bigint NOT NULL,
    every bigint NOT NULL,
    metadata text COLLATE "C" NOT NULL,
    refreshed bigint,
    next_at bigint NOT NULL,
    failures bigint NOT NULL,
    error text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    worker text COLLATE "C" NOT NULL,
    idle bigint NOT NULL DEFAULT 0,
    asked bigint NOT NULL DEFAULT 0,
    least bigint NOT NULL DEFAULT 0,
    most bigint,
    CONSTRAINT floating_pkey PRIMARY KEY (gate)
);
CREATE INDEX floating_due ON floating USING btree (next_at) WHERE idle = 0;

CREATE TABLE floating_use (
    gate bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    handler text COLLATE "C" NOT NULL,
    CONSTRAINT floating_use_pkey PRIMARY KEY (gate, queue, handler)
);

CREATE TABLE gate (
    id bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    running bigint NOT NULL,
    lanes bigint NOT NULL,
    rules text COLLATE "C",
    own text COLLATE "C",
    asking bigint NOT NULL DEFAULT 0,
    member_of text COLLATE "C",
    CONSTRAINT gate_pkey PRIMARY KEY (id),
    CONSTRAINT gate_kind_tenant_name_key UNIQUE (kind, tenant, name)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0, fillfactor=50);
CREATE INDEX gate_ruled ON gate USING btree (kind, name) WHERE rules IS NOT NULL;

CREATE TABLE gate_memory (
    gate bigint NOT NULL,
    span bigint NOT NULL,
    heavy bigint NOT NULL,
    kept_until bigint NOT NULL,
    starts bytea NOT NULL,
    paced bigint,
    gap bigint,
    folded_at bigint NOT NULL DEFAULT 0,
    due bigint NOT NULL DEFAULT 0,
    CONSTRAINT gate_memory_pkey PRIMARY KEY (gate)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0, fillfactor=50);

CREATE TABLE held (
    holder bigint NOT NULL,
    gate bigint NOT NULL,
    slots bigint NOT NULL,
    CONSTRAINT held_pkey PRIMARY KEY (holder, gate)
);
CREATE INDEX held_gate ON held USING btree (gate);

CREATE TABLE holder (
    id bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    lease bigint NOT NULL,
    CONSTRAINT holder_pkey PRIMARY KEY (id)
);
CREATE INDEX holder_lease ON holder USING btree (lease);

CREATE TABLE instance (
    seq bigint NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    sequence bigint,
    queue text COLLATE "C" NOT NULL,
    context text COLLATE "C",
    paused bigint NOT NULL DEFAULT 0,
    ending text COLLATE "C",
    version bigint NOT NULL DEFAULT 0,
    pass bigint,
    pass_version bigint NOT NULL DEFAULT 0,
    parent bigint,
    CONSTRAINT instance_pkey PRIMARY KEY (seq)
);
CREATE INDEX instance_sequence ON instance USING btree (sequence) WHERE sequence IS NOT NULL;
CREATE INDEX instance_workflow ON instance USING btree (workflow, seq);

CREATE TABLE instance_job (
    seq bigint NOT NULL,
    instance bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    child bigint NOT NULL DEFAULT 0,
    frozen bigint,
    CONSTRAINT instance_job_pkey PRIMARY KEY (seq)
);
CREATE INDEX instance_job_of ON instance_job USING btree (instance, key);

CREATE TABLE instance_step (
    instance bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    job text COLLATE "C",
    result text COLLATE "C",
    error text COLLATE "C",
    frame text COLLATE "C",
    began bigint NOT NULL,
    ended bigint,
    CONSTRAINT instance_step_pkey PRIMARY KEY (instance, key)
);
CREATE INDEX instance_step_live ON instance_step USING btree (instance) WHERE state = 'live'::text;

CREATE TABLE instance_timer (
    instance bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT instance_timer_pkey PRIMARY KEY (instance, key)
);
CREATE INDEX instance_timer_at ON instance_timer USING btree (at);

CREATE TABLE instance_wait (
    instance bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    place bigint NOT NULL,
    CONSTRAINT instance_wait_pkey PRIMARY KEY (instance, key)
);
CREATE INDEX instance_wait_name ON instance_wait USING btree (instance, name, place);
CREATE INDEX instance_wait_of_name ON instance_wait USING btree (name, place);

CREATE TABLE job (
    seq bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    args text COLLATE "C" NOT NULL,
    priority bigint NOT NULL,
    cost bigint NOT NULL,
    limits text COLLATE "C" NOT NULL,
    retry text COLLATE "C" NOT NULL,
    timeout bigint,
    expires bigint,
    meta text COLLATE "C" NOT NULL,
    uniqueness text COLLATE "C",
    enqueued bigint NOT NULL,
    costs text COLLATE "C",
    CONSTRAINT job_pkey PRIMARY KEY (seq)
);
CREATE UNIQUE INDEX job_id ON job USING btree (id, tenant);

CREATE TABLE lane (
    id bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    gates text COLLATE "C" NOT NULL,
    head bigint,
    priority bigint NOT NULL,
    ord bigint NOT NULL,
    cost bigint NOT NULL,
    behind bigint,
    line text COLLATE "C",
    ready bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL DEFAULT ''::text,
    costs text COLLATE "C",
    part text COLLATE "C" NOT NULL DEFAULT ''::text,
    CONSTRAINT lane_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0, fillfactor=50);
CREATE INDEX lane_dormant ON lane USING btree (behind, line) WHERE ready = 0 AND behind IS NOT NULL;
CREATE INDEX lane_empty ON lane USING btree (id) WHERE head IS NULL;
CREATE INDEX lane_line ON lane USING btree (line, priority DESC, ord) WHERE line IS NOT NULL;
CREATE INDEX lane_part ON lane USING btree (queue, part) WHERE part <> ''::text;
CREATE INDEX lane_ready ON lane USING btree (queue, tenant, part, priority DESC, ord) WHERE ready = 1;
CREATE INDEX lane_tenant ON lane USING btree (tenant) WHERE tenant <> ''::text;

CREATE TABLE lane_gate (
    gate bigint NOT NULL,
    lane bigint NOT NULL,
    CONSTRAINT lane_gate_pkey PRIMARY KEY (gate, lane)
);

CREATE TABLE lane_job (
    seq bigint NOT NULL,
    lane bigint NOT NULL,
    priority bigint NOT NULL,
    ord bigint NOT NULL,
    cost bigint NOT NULL,
    attempt bigint NOT NULL,
    lost bigint NOT NULL,
    refused bigint NOT NULL,
    costs text COLLATE "C",
    told bigint NOT NULL DEFAULT 0,
    CONSTRAINT lane_job_pkey PRIMARY KEY (seq)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0);
CREATE INDEX lane_job_order ON lane_job USING btree (lane, priority DESC, ord);

CREATE TABLE lane_name (
    lane bigint NOT NULL,
    signature text COLLATE "C" NOT NULL,
    CONSTRAINT lane_name_pkey PRIMARY KEY (lane),
    CONSTRAINT lane_name_signature_key UNIQUE (signature)
);

CREATE TABLE own_lease (
    seq bigint NOT NULL,
    lease bigint NOT NULL,
    CONSTRAINT own_lease_pkey PRIMARY KEY (seq)
);

CREATE TABLE pool (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    ordering text COLLATE "C" NOT NULL,
    slots bigint,
    CONSTRAINT pool_pkey PRIMARY KEY (tenant, name)
);

CREATE TABLE pool_queue (
    queue text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    pool text COLLATE "C" NOT NULL,
    place bigint NOT NULL,
    weight bigint NOT NULL,
    gate bigint,
    CONSTRAINT pool_queue_pkey PRIMARY KEY (queue, tenant, pool)
);

CREATE TABLE progress (
    seq bigint NOT NULL,
    value text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT progress_pkey PRIMARY KEY (seq)
);

CREATE TABLE queue_bound (
    tenant text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    max_depth bigint NOT NULL,
    strategy text COLLATE "C" NOT NULL,
    warning bigint,
    CONSTRAINT queue_bound_pkey PRIMARY KEY (queue, tenant)
);

CREATE TABLE queue_pause (
    tenant text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT queue_pause_pkey PRIMARY KEY (queue, tenant)
);

CREATE TABLE rate_resource (
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    CONSTRAINT rate_resource_pkey PRIMARY KEY (tenant, key)
);

CREATE TABLE ready (
    seq bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority bigint NOT NULL,
    ord bigint NOT NULL,
    cost bigint NOT NULL,
    attempt bigint NOT NULL,
    lost bigint NOT NULL,
    part text COLLATE "C" NOT NULL DEFAULT ''::text,
    CONSTRAINT ready_pkey PRIMARY KEY (seq)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0);
CREATE INDEX ready_order ON ready USING btree (queue, part, priority DESC, ord);

CREATE TABLE receipt (
    connection text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT receipt_pkey PRIMARY KEY (connection)
) WITH (fillfactor=20, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000);

CREATE TABLE resource (
    group_gate bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    gate bigint NOT NULL,
    number bigint NOT NULL,
    config text COLLATE "C" NOT NULL,
    days text COLLATE "C" NOT NULL,
    place bigint NOT NULL,
    created bigint NOT NULL DEFAULT 0,
    updated bigint NOT NULL DEFAULT 0,
    CONSTRAINT resource_pkey PRIMARY KEY (group_gate, key)
);
CREATE INDEX resource_by_gate ON resource USING btree (gate);

CREATE TABLE resource_group (
    gate bigint NOT NULL,
    strategy text COLLATE "C" NOT NULL,
    place bigint NOT NULL,
    created bigint NOT NULL DEFAULT 0,
    updated bigint NOT NULL DEFAULT 0,
    CONSTRAINT resource_group_pkey PRIMARY KEY (gate)
);

CREATE TABLE running (
    seq bigint NOT NULL,
    fence bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    worker text COLLATE "C" NOT NULL,
    lease bigint NOT NULL,
    started bigint NOT NULL,
    begin_by bigint NOT NULL,
    gates text COLLATE "C" NOT NULL,
    cost bigint NOT NULL,
    priority bigint NOT NULL,
    ord bigint NOT NULL,
    attempt bigint NOT NULL,
    lost bigint NOT NULL,
    cancel bigint NOT NULL,
    has_successor bigint NOT NULL DEFAULT 0,
    behind bigint,
    costs text COLLATE "C",
    resource text COLLATE "C",
    counted text COLLATE "C",
    follows bigint NOT NULL DEFAULT 0,
    CONSTRAINT running_pkey PRIMARY KEY (seq)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0, fillfactor=50);
CREATE INDEX running_lease ON running USING btree (lease);

CREATE TABLE schedule (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    expression text COLLATE "C" NOT NULL,
    timezone text COLLATE "C" NOT NULL,
    overlap text COLLATE "C" NOT NULL,
    enabled bigint NOT NULL,
    job text COLLATE "C" NOT NULL,
    ttl bigint,
    meta text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    next_at bigint,
    last_at bigint,
    last_job text COLLATE "C",
    fired bigint NOT NULL,
    sequence bigint,
    CONSTRAINT schedule_pkey PRIMARY KEY (tenant, name)
);
CREATE INDEX schedule_next ON schedule USING btree (next_at);

CREATE TABLE scheduled (
    seq bigint NOT NULL,
    due bigint NOT NULL,
    attempt bigint NOT NULL,
    lost bigint NOT NULL,
    reason text COLLATE "C",
    signature text COLLATE "C",
    tenant text COLLATE "C" NOT NULL DEFAULT ''::text,
    CONSTRAINT scheduled_pkey PRIMARY KEY (seq)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0);
CREATE INDEX scheduled_due ON scheduled USING btree (due, seq);
CREATE INDEX scheduled_signature ON scheduled USING btree (signature, seq) WHERE signature IS NOT NULL;
CREATE INDEX scheduled_tenant ON scheduled USING btree (tenant) WHERE tenant <> ''::text;

CREATE TABLE schema_version (
    version bigint NOT NULL
);

CREATE TABLE sequence (
    number bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    definition text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    deprecated bigint NOT NULL DEFAULT 0,
    id text COLLATE "C" NOT NULL,
    CONSTRAINT sequence_pkey PRIMARY KEY (number),
    CONSTRAINT sequence_tenant_namespace_name_version_key UNIQUE (tenant, namespace, name, version)
);
CREATE UNIQUE INDEX sequence_id ON sequence USING btree (id, tenant);

CREATE TABLE served (
    queue text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    CONSTRAINT served_pkey PRIMARY KEY (queue, tenant)
);
CREATE INDEX served_last ON served USING btree (queue, number);

CREATE TABLE setting (
    name text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT setting_pkey PRIMARY KEY (name)
);

CREATE TABLE signal (
    number bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    instance bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    payload text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT signal_pkey PRIMARY KEY (number)
);
CREATE INDEX signal_name ON signal USING btree (instance, name, number);

CREATE TABLE successor (
    seq bigint NOT NULL,
    earlier bigint NOT NULL,
    ord bigint NOT NULL,
    due bigint NOT NULL,
    CONSTRAINT successor_pkey PRIMARY KEY (seq),
    CONSTRAINT successor_earlier_key UNIQUE (earlier)
);

CREATE TABLE task_part (
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    refused_at bigint NOT NULL,
    known_at bigint NOT NULL,
    CONSTRAINT task_part_pkey PRIMARY KEY (queue, task)
);

CREATE TABLE tenant (
    name text COLLATE "C" NOT NULL,
    max_waiting bigint,
    max_scheduled bigint,
    rate_limit bigint,
    rate_period bigint,
    CONSTRAINT tenant_pkey PRIMARY KEY (name)
);

CREATE TABLE tenant_arrivals (
    tenant text COLLATE "C" NOT NULL,
    span bigint NOT NULL,
    starts bytea NOT NULL,
    CONSTRAINT tenant_arrivals_pkey PRIMARY KEY (tenant)
);

CREATE TABLE turn (
    gate bigint NOT NULL,
    seq bigint NOT NULL,
    lane bigint NOT NULL,
    priority bigint NOT NULL,
    ord bigint NOT NULL,
    cost bigint NOT NULL,
    until bigint,
    costs text COLLATE "C",
    CONSTRAINT turn_pkey PRIMARY KEY (gate)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0, fillfactor=50);

CREATE TABLE uniqueness (
    key text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    states text COLLATE "C" NOT NULL,
    until bigint,
    since bigint,
    CONSTRAINT uniqueness_pkey PRIMARY KEY (key, seq)
);
CREATE INDEX uniqueness_seq ON uniqueness USING btree (seq);

CREATE TABLE wake (
    gate bigint NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT wake_pkey PRIMARY KEY (gate)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0, fillfactor=50);
CREATE INDEX wake_at ON wake USING btree (at);

CREATE TABLE webhook (
    id text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    url text COLLATE "C" NOT NULL,
    events text COLLATE "C" NOT NULL,
    queues text COLLATE "C" NOT NULL,
    tasks text COLLATE "C" NOT NULL,
    active bigint NOT NULL,
    secret text COLLATE "C" NOT NULL,
    previous text COLLATE "C" NOT NULL,
    previous_until bigint NOT NULL,
    meta text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    changed bigint NOT NULL,
    CONSTRAINT webhook_pkey PRIMARY KEY (id)
);

CREATE TABLE worker (
    name text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    heard bigint NOT NULL,
    facts text COLLATE "C" NOT NULL,
    CONSTRAINT worker_pkey PRIMARY KEY (name, tenant)
);
CREATE INDEX worker_heard ON worker USING btree (heard);

CREATE TABLE workflow (
    number bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    meta text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    finished bigint,
    state text COLLATE "C" NOT NULL,
    total bigint NOT NULL,
    unfinished bigint NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    CONSTRAINT workflow_pkey PRIMARY KEY (number),
    CONSTRAINT workflow_id_key UNIQUE (id)
);
CREATE INDEX workflow_finished ON workflow USING btree (finished) WHERE finished IS NOT NULL;
CREATE INDEX workflow_tenant ON workflow USING btree (tenant, number);

CREATE TABLE workflow_job (
    seq bigint NOT NULL,
    workflow bigint NOT NULL,
    step bigint NOT NULL,
    started bigint,
    CONSTRAINT workflow_job_pkey PRIMARY KEY (seq)
);
CREATE INDEX workflow_job_started ON workflow_job USING btree (workflow, started) WHERE started IS NOT NULL;

CREATE TABLE workflow_plan (
    step bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    parents text COLLATE "C" NOT NULL,
    results text COLLATE "C",
    CONSTRAINT workflow_plan_pkey PRIMARY KEY (step)
);

CREATE TABLE workflow_step (
    number bigint NOT NULL,
    workflow bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    runs text COLLATE "C" NOT NULL,
    callback bigint NOT NULL,
    waiting bigint NOT NULL,
    failed bigint NOT NULL,
    skipped bigint NOT NULL,
    seq bigint,
    job text COLLATE "C",
    children text COLLATE "C" NOT NULL,
    result text COLLATE "C",
    opening bigint,
    CONSTRAINT workflow_step_pkey PRIMARY KEY (number)
);
CREATE INDEX workflow_step_failed ON workflow_step USING btree (workflow) WHERE state = 'failed'::text;
CREATE INDEX workflow_step_of ON workflow_step USING btree (workflow, number);
