-- Workflows: steps that wait for each other, each of which becomes an ordinary job.
--
--   workflow       how far each one is
--   workflow_plan  what was asked for, step by step; written once
--   workflow_step  where each step stands
--   workflow_job   to which step a job belongs

CREATE TABLE workflow (
    number BIGINT PRIMARY KEY,
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
CREATE INDEX workflow_tenant ON workflow (tenant, number);
CREATE INDEX workflow_finished ON workflow (finished) WHERE finished IS NOT NULL;

CREATE TABLE workflow_plan (
    step BIGINT PRIMARY KEY,
    id TEXT NOT NULL,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    job TEXT NOT NULL,
    parents TEXT NOT NULL
);

CREATE TABLE workflow_step (
    number BIGINT PRIMARY KEY,
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
);
CREATE INDEX workflow_step_of ON workflow_step (workflow, number);

CREATE TABLE workflow_job (
    seq BIGINT PRIMARY KEY,
    workflow BIGINT NOT NULL,
    step BIGINT NOT NULL
);
