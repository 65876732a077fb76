-- Rates that are set for a key from outside, each with an id; and schedules that create instances.
--
--   rate_resource  keys whose rate was set; the numbers are among the rules of the gate

CREATE TABLE rate_resource (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    created BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX instance_wait_of_name ON instance_wait (name, place);

ALTER TABLE schedule ADD COLUMN sequence BIGINT;
