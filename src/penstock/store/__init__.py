"""The only SQL: what is remembered, in one SQLite file or in PostgreSQL."""
