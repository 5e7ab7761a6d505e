"""The only SQL: one file per table, named queries in `sql/`, migrations by number."""
