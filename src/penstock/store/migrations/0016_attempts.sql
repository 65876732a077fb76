-- What became of each attempt at a job.
--
--   attempt  attempts that ended otherwise than done, numbered from 1 for each job; the oldest are forgotten, so the
--            first number that is kept says how many.  attempt is the number by which handler and policy knew it;
--            retried is when its job was retried by hand after it.  started is unknown of those from before this step
--   done     has the same of an attempt that ended done, which is the last
--   behind   the gate in whose line the job's lane stood when the attempt started
--
-- The table failure stays, empty, for processes of an earlier version that still run.

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

ALTER TABLE running ADD COLUMN behind BIGINT;
ALTER TABLE done ADD COLUMN lost BIGINT;
ALTER TABLE done ADD COLUMN began BIGINT;
ALTER TABLE done ADD COLUMN worker TEXT;
ALTER TABLE done ADD COLUMN gates TEXT;
ALTER TABLE done ADD COLUMN behind BIGINT;

INSERT INTO attempt (seq, number, attempt, outcome, ended, worker, gates, reason, error)
SELECT seq, row_number() OVER (PARTITION BY seq ORDER BY attempt), attempt,
    CASE WHEN error LIKE '{"kind": "LeaseLost"%' THEN 'lost' ELSE 'failed' END, at, '', '', '', error
FROM failure;

UPDATE done SET lost = (SELECT count(*) FROM attempt a WHERE a.seq = done.seq AND a.outcome = 'lost')
WHERE seq IN (SELECT a.seq FROM attempt a WHERE a.outcome = 'lost');

DELETE FROM failure;
