-- A resource group is a gate that is any of several: a start takes one of its resources that has room.
--
--   resource_group  the strategy of a group, by its gate; place is how far its own time is
--   resource        what may be taken: config as JSON, the gate of its key, the starts of each day, its place; a
--                   number of its own, so that one which is added again is not taken for the one before
--
-- A gate names in member_of the groups whose resource its key is, so that a change there is told to them.
-- An attempt names the resource that it took, and where it was counted: the resource's number and a day.

CREATE TABLE resource_group (
    gate BIGINT PRIMARY KEY,
    strategy TEXT NOT NULL,
    place BIGINT NOT NULL
);

CREATE TABLE resource (
    group_gate BIGINT NOT NULL,
    key TEXT NOT NULL,
    gate BIGINT NOT NULL,
    number BIGINT NOT NULL,
    config TEXT NOT NULL,
    days TEXT NOT NULL,
    place BIGINT NOT NULL,
    PRIMARY KEY (group_gate, key)
);
CREATE INDEX resource_by_gate ON resource (gate);

ALTER TABLE gate ADD COLUMN member_of TEXT;
ALTER TABLE running ADD COLUMN resource TEXT;
ALTER TABLE running ADD COLUMN counted TEXT;
