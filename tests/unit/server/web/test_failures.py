"""Failed sign-ins: how many one may have, and all together."""

from __future__ import annotations

import pytest

from minions.server.web.failures import MOST_FROM_ONE, MOST_IN_ALL, Failures, source_of


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def fail(failures: Failures, address: str, times: int) -> None:
    for _ in range(times):
        failures.add(address)


def test_one_address_is_bounded_for_a_minute_and_others_are_not() -> None:
    clock = Clock()
    failures = Failures(clock)
    fail(failures, "198.51.100.7", MOST_FROM_ONE - 1)
    assert not failures.too_many("198.51.100.7")
    failures.add("198.51.100.7")
    assert failures.too_many("198.51.100.7")
    assert not failures.too_many("198.51.100.8")
    clock.seconds += 60
    assert not failures.too_many("198.51.100.7")


def test_all_together_are_bounded_and_so_is_what_is_remembered() -> None:
    failures = Failures(Clock())
    for number in range(MOST_IN_ALL - 1):
        failures.add(f"10.0.{number // 250}.{number % 250}")
    assert not failures.too_many("198.51.100.7")
    fail(failures, "198.51.100.8", 3 * MOST_IN_ALL)
    assert failures.too_many("198.51.100.7")
    assert len(failures) == MOST_IN_ALL


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("198.51.100.7", "198.51.100.8", False),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:198.51.100.7", "198.51.100.7", True),
        ("fe80::1%en0", "fe80::2%en0", True),
        ("", "198.51.100.7", False),
        ("x" * 5000, "x" * 64, True),
    ],
)
def test_what_counts_as_one_client(one: str, other: str, same: bool) -> None:
    assert (source_of(one) == source_of(other)) is same
