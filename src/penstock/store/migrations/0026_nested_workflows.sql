-- Workflows in workflows: the step whose begin a callback tells of, and how results are arranged for a step where that is
-- not one for each of its parents: numbers of steps, with brackets around those of a group.

ALTER TABLE workflow_step ADD COLUMN opening BIGINT;
ALTER TABLE workflow_plan ADD COLUMN results TEXT;
