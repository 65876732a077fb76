-- When a resource group, or a resource, was put first and last.

ALTER TABLE resource_group ADD COLUMN created BIGINT NOT NULL DEFAULT 0;
ALTER TABLE resource_group ADD COLUMN updated BIGINT NOT NULL DEFAULT 0;
ALTER TABLE resource ADD COLUMN created BIGINT NOT NULL DEFAULT 0;
ALTER TABLE resource ADD COLUMN updated BIGINT NOT NULL DEFAULT 0;
