"""Fixtures for the real systems that tests run against, and the order of tests in parallel."""

from tests.services.postgres import database_url, postgres
from tests.services.s3 import s3
from tests.turns import (
    pytest_collection_modifyitems,
    pytest_make_parametrize_id,
    pytest_runtest_protocol,
    pytest_xdist_make_scheduler,
)

__all__ = [
    "database_url",
    "postgres",
    "pytest_collection_modifyitems",
    "pytest_make_parametrize_id",
    "pytest_runtest_protocol",
    "pytest_xdist_make_scheduler",
    "s3",
]
