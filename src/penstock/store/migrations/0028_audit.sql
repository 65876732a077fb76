-- What operators changed: who, through what, before, after and why; one row for a bulk operation, with how many it touched.

CREATE TABLE audit (
    number BIGINT PRIMARY KEY,
    at BIGINT NOT NULL,
    who TEXT NOT NULL,
    through TEXT NOT NULL,
    verb TEXT NOT NULL,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    before TEXT,
    after TEXT,
    reason TEXT NOT NULL,
    touched BIGINT NOT NULL
);

CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_subject ON audit (kind, subject, number);
CREATE INDEX audit_who ON audit (who, number);
CREATE INDEX audit_tenant ON audit (tenant, number);
