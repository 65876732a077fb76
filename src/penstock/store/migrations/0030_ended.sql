-- Attempts are found by when they ended, as jobs are by when they finished.

CREATE INDEX attempt_ended ON attempt (ended, seq, number);
