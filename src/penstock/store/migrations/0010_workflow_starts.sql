-- When a job of a workflow began for the first time.  Of those from before this step the last time is known, if any.

ALTER TABLE workflow_job ADD COLUMN started BIGINT;

UPDATE workflow_job SET started = coalesce(
    (SELECT r.started FROM running r WHERE r.seq = workflow_job.seq),
    (SELECT d.started FROM done d WHERE d.seq = workflow_job.seq));

CREATE INDEX workflow_job_started ON workflow_job (workflow, started) WHERE started IS NOT NULL;
CREATE INDEX workflow_step_failed ON workflow_step (workflow) WHERE state = 'failed';
