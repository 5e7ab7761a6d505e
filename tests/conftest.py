"""Fixtures for the real systems that tests run against, and the order of tests in parallel."""

import signal

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

# A shell that starts the tests in the background has these ignored, and every process that a test starts would inherit
# that: nothing could be interrupted.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)
