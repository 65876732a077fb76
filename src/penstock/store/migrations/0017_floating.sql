-- Floating limits that are not in use are not refreshed, and their values have bounds.
--
--   idle          1 if the key was not in use when its refresh was due; a job that comes to it sets it to 0
--   asked         1 if a job came when the refresh was due, or an operator asked for it: it need not be in use then
--   least, most   the bounds of the value
--   floating_use  in which queues the key was used, and which handlers its jobs named there (empty: none)

ALTER TABLE floating ADD COLUMN idle BIGINT NOT NULL DEFAULT 0;
ALTER TABLE floating ADD COLUMN asked BIGINT NOT NULL DEFAULT 0;
ALTER TABLE floating ADD COLUMN least BIGINT NOT NULL DEFAULT 0;
ALTER TABLE floating ADD COLUMN most BIGINT;
DROP INDEX floating_next;
CREATE INDEX floating_due ON floating (next_at) WHERE idle = 0;

CREATE TABLE floating_use (
    gate BIGINT NOT NULL,
    queue TEXT NOT NULL,
    handler TEXT NOT NULL,
    PRIMARY KEY (gate, queue, handler)
);
INSERT INTO floating_use (gate, queue, handler)
SELECT DISTINCT f.gate, l.queue, f.handler
FROM floating f JOIN lane_gate p ON p.gate = f.gate JOIN lane l ON l.id = p.lane;

-- The lanes at these keys do not tell a number that floats from a job's own maximum.  They are made again when jobs
-- come to them.
CREATE TABLE lane_gone (
    lane BIGINT PRIMARY KEY
);
INSERT INTO lane_gone (lane) SELECT DISTINCT p.lane FROM lane_gate p JOIN floating f ON f.gate = p.gate;
INSERT INTO door (seq, attempt, lost)
SELECT seq, attempt, lost FROM lane_job WHERE lane IN (SELECT g.lane FROM lane_gone g);
DELETE FROM lane_job WHERE lane IN (SELECT g.lane FROM lane_gone g);
UPDATE gate SET lanes = lanes - (
    SELECT count(*) FROM lane l JOIN lane_gone g ON g.lane = l.id WHERE l.behind = gate.id)
WHERE id IN (SELECT l.behind FROM lane l JOIN lane_gone g ON g.lane = l.id WHERE l.behind IS NOT NULL);
-- A job that was called, or had the turn, is gone: the clock looks after who is next.
INSERT INTO wake (gate, at)
SELECT DISTINCT p.gate, 0 FROM lane_gate p JOIN lane_gone g ON g.lane = p.lane
WHERE NOT EXISTS (SELECT 1 FROM wake w WHERE w.gate = p.gate);
UPDATE wake SET at = 0 WHERE gate IN (SELECT p.gate FROM lane_gate p JOIN lane_gone g ON g.lane = p.lane);
DELETE FROM turn WHERE lane IN (SELECT g.lane FROM lane_gone g);
DELETE FROM lane_gate WHERE lane IN (SELECT g.lane FROM lane_gone g);
DELETE FROM lane_name WHERE lane IN (SELECT g.lane FROM lane_gone g);
DELETE FROM lane WHERE id IN (SELECT g.lane FROM lane_gone g);
DROP TABLE lane_gone;
