-- Instances: durable runs of workflows.  An instance is a job, of the queue with the empty name, that the store runs.
--
--   sequence        workflows that are written as JSON
--   instance        how far each one is; its own state is where its job stands
--   instance_step   the memo: what it remembers of each step
--   instance_job    its jobs, passes and children that have not ended
--   instance_timer  when a timer, or a wait for a signal, is over
--   instance_wait   which signals it waits for
--   signal          signals that nothing has waited for yet

CREATE TABLE sequence (
    number BIGINT PRIMARY KEY,
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

-- context is what has taken the place of the job's arguments; ending is how it will end, once its jobs have.
-- version counts the ends of steps of a Python workflow, and how often an instance was retried.
CREATE TABLE instance (
    seq BIGINT PRIMARY KEY,
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
CREATE INDEX instance_workflow ON instance (workflow, seq);
CREATE INDEX instance_sequence ON instance (sequence) WHERE sequence IS NOT NULL;

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

-- frozen is when a job that its instance's pause keeps would be due; 0 for at once.
CREATE TABLE instance_job (
    seq BIGINT PRIMARY KEY,
    instance BIGINT NOT NULL,
    key TEXT NOT NULL,
    child BIGINT NOT NULL DEFAULT 0,
    frozen BIGINT
);
CREATE INDEX instance_job_of ON instance_job (instance, key);

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

CREATE TABLE signal (
    number BIGINT PRIMARY KEY,
    id TEXT NOT NULL,
    instance BIGINT NOT NULL,
    name TEXT NOT NULL,
    payload TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX signal_name ON signal (instance, name, number);
