"""Fixtures for the real systems that tests run against, and the order of tests in parallel."""

import gc
import signal

from hypothesis import HealthCheck, settings

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
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_make_parametrize_id",
    "pytest_runtest_protocol",
    "pytest_xdist_make_scheduler",
    "s3",
]

# How long an example takes says something of the machine and nothing of the code. The same examples in every run: what
# fails must not depend on luck; `--hypothesis-profile=default` looks for others.
settings.register_profile(
    "suite", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

# What all test modules import stays; looking for waste in it takes a third of the time until the first test.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


# A shell that starts the tests in the background has these ignored, and every process that a test starts would inherit
# that: nothing could be interrupted.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)
