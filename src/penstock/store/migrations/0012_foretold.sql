-- Which limits a job that is not due yet will bring, so that its keys can be listed without a look at each job: the
-- same for all jobs of a tenant that carry the same limits.  Empty without limits.  Limits too long for an index
-- are told apart by job.

ALTER TABLE scheduled ADD COLUMN signature TEXT;

UPDATE scheduled SET signature = (
    SELECT CASE WHEN length(j.limits) + length(j.tenant) > 500 THEN j.seq || '' ELSE j.limits || j.tenant END
    FROM job j WHERE j.seq = scheduled.seq AND j.limits <> '');

CREATE INDEX scheduled_signature ON scheduled (signature, seq) WHERE signature IS NOT NULL;
