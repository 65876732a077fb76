-- Slots that are lent to a process for calls of its own, which are no jobs.
--
--   holder  a process that borrows; all it has and asks for is lost when its lease ends
--   held    how many slots of a gate it has
--   asking  who waits at a gate for slots, in the order of ord; given is how many it got and has not fetched yet,
--           or -1 if it was called to take them
--
-- A gate counts in asking those who were given nothing yet.

CREATE TABLE holder (
    id BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    lease BIGINT NOT NULL
);
CREATE INDEX holder_lease ON holder (lease);

CREATE TABLE held (
    holder BIGINT NOT NULL,
    gate BIGINT NOT NULL,
    slots BIGINT NOT NULL,
    PRIMARY KEY (holder, gate)
);
CREATE INDEX held_gate ON held (gate);

CREATE TABLE asking (
    gate BIGINT NOT NULL,
    ord BIGINT NOT NULL,
    holder BIGINT NOT NULL,
    want BIGINT NOT NULL,
    own TEXT NOT NULL,
    slots BIGINT NOT NULL,
    most BIGINT NOT NULL,
    given BIGINT NOT NULL,
    PRIMARY KEY (gate, ord)
);
CREATE INDEX asking_holder ON asking (holder, given);

ALTER TABLE gate ADD COLUMN asking BIGINT NOT NULL DEFAULT 0;
