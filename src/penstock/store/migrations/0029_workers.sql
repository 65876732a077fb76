-- Workers, as they told of themselves last.

CREATE TABLE worker (
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    heard BIGINT NOT NULL,
    facts TEXT NOT NULL,
    PRIMARY KEY (name, tenant)
);

CREATE INDEX worker_heard ON worker (heard);
