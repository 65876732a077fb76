-- Why a job is scheduled, in words: an attempt failed, it was put off.  Empty if it was enqueued for a later moment.

ALTER TABLE scheduled ADD COLUMN reason TEXT;

UPDATE scheduled SET reason = 'its last attempt failed' WHERE attempt > lost;
