"""The real systems that tests run against: PostgreSQL and S3, started on free ports."""
