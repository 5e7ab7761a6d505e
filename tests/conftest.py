"""Fixtures for the real systems that tests run against."""

from tests.services.postgres import database_url, postgres
from tests.services.s3 import s3

__all__ = ["database_url", "postgres", "s3"]
