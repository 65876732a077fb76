-- A queue is a tenant's: its name no longer begins with the tenant's, and each table that names a queue has both.
--
--   queue_pause      queues from which nothing may start
--   queue_bound      how many jobs may wait in a queue
--   tenant           how many jobs of a tenant may wait and be scheduled, and how many may come in which time
--   tenant_arrivals  when jobs of a tenant came that has such a rate
--   served           which tenant of a queue was served last: the highest number
--
-- Every job of a tenant passes the tenant's own gate, of kind tenant, and so stands in a lane.  Jobs of tenants that
-- wait go to the door, and stand in lanes of the new kind once they are let in.

ALTER TABLE lane ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE scheduled ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
DROP INDEX lane_ready;
CREATE INDEX lane_ready ON lane (queue, tenant, priority DESC, ord) WHERE ready = 1;
CREATE INDEX lane_tenant ON lane (tenant) WHERE tenant <> '';
CREATE INDEX scheduled_tenant ON scheduled (tenant) WHERE tenant <> '';

CREATE TABLE queue_pause (
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (queue, tenant)
);

CREATE TABLE queue_bound (
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    max_depth BIGINT NOT NULL,
    strategy TEXT NOT NULL,
    warning BIGINT,
    PRIMARY KEY (queue, tenant)
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
    starts BYTEA NOT NULL
);

CREATE TABLE served (
    queue TEXT NOT NULL,
    tenant TEXT NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (queue, tenant)
);
CREATE INDEX served_last ON served (queue, number);

-- The queues of tenants, by their old names.
CREATE TABLE tenant_known (
    tenant TEXT PRIMARY KEY
);
INSERT INTO tenant_known (tenant)
SELECT tenant FROM job WHERE tenant <> '' UNION SELECT tenant FROM schedule WHERE tenant <> ''
UNION SELECT tenant FROM workflow WHERE tenant <> '' UNION SELECT tenant FROM pool WHERE tenant <> ''
UNION SELECT tenant FROM gate WHERE tenant <> '' UNION SELECT tenant FROM webhook WHERE tenant <> ''
UNION SELECT substr(name, 12) FROM setting WHERE name LIKE 'ojs:tenant:_%';

CREATE TABLE queue_known (
    name TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL
);
INSERT INTO queue_known (name, tenant, queue)
SELECT n.name, k.tenant, substr(n.name, length(k.tenant) + 2) FROM (
    SELECT queue AS name FROM paused UNION SELECT queue FROM bound
    UNION SELECT name FROM gate WHERE kind = 'queue' AND tenant = ''
) AS n JOIN tenant_known k ON substr(n.name, 1, length(k.tenant) + 1) = k.tenant || ':'
WHERE substr(n.name, length(k.tenant) + 2) NOT LIKE '%:%' AND length(n.name) > length(k.tenant) + 1;

INSERT INTO queue_pause (tenant, queue, at)
SELECT coalesce(k.tenant, ''), coalesce(k.queue, p.queue), p.at FROM paused p LEFT JOIN queue_known k ON k.name = p.queue;
INSERT INTO queue_pause (tenant, queue, at)
SELECT '', p.queue, p.at FROM paused p JOIN queue_known k ON k.name = p.queue
WHERE EXISTS (SELECT 1 FROM job j WHERE j.tenant = '' AND j.queue = p.queue);
DROP TABLE paused;
INSERT INTO queue_bound (tenant, queue, max_depth, strategy, warning)
SELECT coalesce(k.tenant, ''), coalesce(k.queue, b.queue), b.max_depth, b.strategy, b.warning
FROM bound b LEFT JOIN queue_known k ON k.name = b.queue;
INSERT INTO queue_bound (tenant, queue, max_depth, strategy, warning)
SELECT '', b.queue, b.max_depth, b.strategy, b.warning FROM bound b JOIN queue_known k ON k.name = b.queue
WHERE EXISTS (SELECT 1 FROM job j WHERE j.tenant = '' AND j.queue = b.queue);
DROP TABLE bound;
UPDATE gate SET tenant = (SELECT k.tenant FROM queue_known k WHERE k.name = gate.name),
    name = (SELECT k.queue FROM queue_known k WHERE k.name = gate.name)
WHERE kind = 'queue' AND tenant = '' AND name IN (SELECT k.name FROM queue_known k);
UPDATE gate SET kind = 'tenant', name = '' WHERE kind = 'key' AND name = '@tenant' AND tenant <> '';
UPDATE pool_queue SET queue = substr(queue, length(tenant) + 2)
WHERE tenant <> '' AND substr(queue, 1, length(tenant) + 1) = tenant || ':';
DROP TABLE queue_known;
DROP TABLE tenant_known;

UPDATE job SET queue = substr(queue, length(tenant) + 2)
WHERE tenant <> '' AND substr(queue, 1, length(tenant) + 1) = tenant || ':';
UPDATE job SET limits = CASE limits WHEN '[["@tenant",""]]' THEN ''
    ELSE replace(replace(limits, '["@tenant",""],', ''), ',["@tenant",""]', '') END
WHERE tenant <> '' AND limits LIKE '%["@tenant",""]%';
UPDATE running SET queue = (SELECT j.queue FROM job j WHERE j.seq = running.seq)
WHERE EXISTS (SELECT 1 FROM job j WHERE j.seq = running.seq AND j.tenant <> '');
UPDATE scheduled SET tenant = (SELECT j.tenant FROM job j WHERE j.seq = scheduled.seq), signature = (
    SELECT CASE WHEN length(j.limits) + length(j.tenant) > 500 THEN j.seq || '' ELSE j.limits || j.tenant END
    FROM job j WHERE j.seq = scheduled.seq AND j.limits <> '')
WHERE EXISTS (SELECT 1 FROM job j WHERE j.seq = scheduled.seq AND j.tenant <> '');

-- The gate of the tenant was among the limits that schedules and workflows keep for jobs to come.
UPDATE schedule SET job = replace(replace(replace(replace(job,
    '"queue":"' || tenant || ':', '"queue":"'),
    '{"key":"@tenant","numbers":{"slots":null,"rate":null,"throttle":null},"on_limit":"wait","floating":null,"shared":false},', ''),
    ',{"key":"@tenant","numbers":{"slots":null,"rate":null,"throttle":null},"on_limit":"wait","floating":null,"shared":false}', ''),
    '{"key":"@tenant","numbers":{"slots":null,"rate":null,"throttle":null},"on_limit":"wait","floating":null,"shared":false}', '')
WHERE tenant <> '';
UPDATE workflow_plan SET
    queue = (SELECT CASE WHEN substr(workflow_plan.queue, 1, length(f.tenant) + 1) = f.tenant || ':'
        THEN substr(workflow_plan.queue, length(f.tenant) + 2) ELSE workflow_plan.queue END
        FROM workflow_step s JOIN workflow f ON f.number = s.workflow WHERE s.number = workflow_plan.step),
    job = (SELECT replace(replace(replace(replace(workflow_plan.job,
        '"queue":"' || f.tenant || ':', '"queue":"'),
        '{"key":"@tenant","numbers":{"slots":null,"rate":null,"throttle":null},"on_limit":"wait","floating":null,"shared":false},', ''),
        ',{"key":"@tenant","numbers":{"slots":null,"rate":null,"throttle":null},"on_limit":"wait","floating":null,"shared":false}', ''),
        '{"key":"@tenant","numbers":{"slots":null,"rate":null,"throttle":null},"on_limit":"wait","floating":null,"shared":false}', '')
        FROM workflow_step s JOIN workflow f ON f.number = s.workflow WHERE s.number = workflow_plan.step)
WHERE step IN (SELECT s.number FROM workflow_step s JOIN workflow f ON f.number = s.workflow WHERE f.tenant <> '');

-- Lanes of tenants are made again when jobs come to them.  The signature of a lane begins with its tenant, and that of
-- a lane without one with a separator that sorts before all text.
CREATE TABLE lane_gone (
    lane BIGINT PRIMARY KEY
);
INSERT INTO lane_gone (lane) SELECT n.lane FROM lane_name n WHERE n.signature >= ' '
UNION SELECT q.lane FROM lane_job q JOIN job j ON j.seq = q.seq WHERE j.tenant <> '';
INSERT INTO door (seq, attempt, lost)
SELECT seq, attempt, lost FROM lane_job WHERE lane IN (SELECT g.lane FROM lane_gone g)
UNION ALL SELECT r.seq, r.attempt, r.lost FROM ready r JOIN job j ON j.seq = r.seq WHERE j.tenant <> '';
DELETE FROM lane_job WHERE lane IN (SELECT g.lane FROM lane_gone g);
DELETE FROM ready WHERE seq IN (SELECT d.seq FROM door d);
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

UPDATE setting SET name = 'maintenance' WHERE name = 'ojs:maintenance';
UPDATE setting SET name = 'http:' || substr(name, 5) WHERE name LIKE 'ojs:worker:%';
