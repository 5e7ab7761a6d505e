"""What the probes read in what systems really print."""

from __future__ import annotations

from pathlib import Path

import pytest

from minions.domain.facts import Pressure, Thermal
from minions.executor.probes.idle import parse_interrupts, parse_ioreg, parse_mutter, terminals_idle
from minions.executor.probes.memory import parse_available, parse_level, parse_stall
from minions.executor.probes.metered import parse_default_devices, parse_network_manager, parse_route_get
from minions.executor.probes.power import Power, parse_pmset, parse_supplies
from minions.executor.probes.processor import other_percent
from minions.executor.probes.programs import parse_bundle
from minions.executor.probes.session import parse_locked
from minions.executor.probes.sleep import parse_signal
from minions.executor.probes.thermal import Zone, hottest, parse_thermal_state, parse_zone

RECORDINGS = Path(__file__).parent / "recordings"


def recording(name: str) -> str:
    return (RECORDINGS / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "power"),
    [
        ("laptop-charged", Power(False, 100)),
        ("laptop-attached", Power(False, 7)),
        ("laptop-2016-charging", Power(False, 84)),
        ("laptop-unplugged-just-now", Power(True, 100)),
        ("laptop-2016-unplugged", Power(True, 89)),
        ("desktop", Power(False)),
        ("desktop-beside-ups", Power(False)),
        ("desktop-on-ups", Power(True)),
        ("laptop-unplugged-beside-ups", Power(True, 12)),
        ("desktop-misreported", Power(False)),
    ],
)
def test_pmset(name: str, power: Power) -> None:
    assert parse_pmset(recording(f"pmset-{name}")) == power


@pytest.mark.parametrize("text", ["", "pmset: command not found", "Now drawing from 'Fusion Power'\n"])
def test_pmset_that_says_nothing_known(text: str) -> None:
    assert parse_pmset(text) == Power(None)


@pytest.mark.parametrize(
    ("names", "power"),
    [
        ([], Power(False)),
        (["mouse"], Power(False)),
        (["charger-in"], Power(False)),
        (["charger-out"], Power(False)),
        (["laptop-charging", "charger-in"], Power(False, 98)),
        (["laptop-charging"], Power(False, 98)),
        (["laptop-discharging"], Power(True, 61)),
        (["laptop-discharging", "charger-out", "mouse"], Power(True, 61)),
        (["mouse", "laptop-discharging", "charger-out"], Power(True, 61)),
        (["laptop-discharging", "charger-out", "usb-c-in"], Power(False, 61)),  # charger too weak, but plugged in
    ],
)
def test_power_supplies(names: list[str], power: Power) -> None:
    assert parse_supplies(recording(f"power-supply-{name}") for name in names) == power


def test_a_battery_that_was_taken_out_is_none() -> None:
    empty = recording("power-supply-laptop-discharging").replace("PRESENT=1", "PRESENT=0")
    assert parse_supplies([empty]) == Power(False)


def test_a_battery_that_does_not_say_what_it_does() -> None:
    silent = recording("power-supply-laptop-discharging").replace("STATUS=Discharging", "STATUS=Unknown")
    assert parse_supplies([silent]) == Power(None, 61)
    assert parse_supplies([silent, recording("power-supply-charger-out")]) == Power(True, 61)


def test_ioreg() -> None:
    assert parse_ioreg(recording("ioreg-idle")) == pytest.approx(21.858429)
    assert parse_ioreg('"HIDIdleTime" = 21858429000\n"HIDIdleTime" = 1000000') == pytest.approx(0.001)
    assert parse_ioreg("") is None


def test_the_idle_monitor_of_gnome() -> None:
    assert parse_mutter("t 61234\n") == pytest.approx(61.234)
    assert parse_mutter("Call failed: The name is not activatable") is None


def test_interrupts_of_input_devices_only() -> None:
    assert parse_interrupts(recording("interrupts-laptop")) == {
        "1 i8042": 12404,
        "12 i8042": 88,
        "51 ELAN0676:00": 930211,
    }
    assert parse_interrupts("") == {}


def test_terminals() -> None:
    assert terminals_idle([100.0, 160.0, 90.0], 200.0) == 40.0
    assert terminals_idle([210.0], 200.0) == 0.0
    assert terminals_idle([], 200.0) is None


@pytest.mark.parametrize(("number", "state"), [*enumerate(Thermal), (4, None), (-1, None), (None, None)])
def test_thermal_state(number: int | None, state: Thermal | None) -> None:
    assert parse_thermal_state(number) is state


TRIPS = [("critical", "100000"), ("hot", "95000"), ("passive", "85000"), ("active", "70000"), ("passive", "-274000")]


@pytest.mark.parametrize(
    ("temperature", "state"),
    [
        ("45000", Thermal.NOMINAL),
        ("70000", Thermal.FAIR),
        ("85000", Thermal.SERIOUS),
        ("91000", Thermal.SERIOUS),
        ("95000", Thermal.CRITICAL),
    ],
)
def test_zones_of_linux(temperature: str, state: Thermal) -> None:
    zone = parse_zone(f"{temperature}\n", TRIPS)
    assert zone is not None
    assert hottest([Zone(20_000, (("critical", 90_000),)), zone]) is state


def test_a_zone_without_points_or_temperature_tells_nothing() -> None:
    assert parse_zone("45000", []) is None
    assert parse_zone("45000", [("passive", "-274000"), ("active", "0")]) is None
    assert parse_zone("", TRIPS) is None
    assert hottest([]) is None


@pytest.mark.parametrize(
    ("number", "level"), [(1, Pressure.NORMAL), (2, Pressure.WARNING), (4, Pressure.CRITICAL), (3, None), (None, None)]
)
def test_pressure_level(number: int | None, level: Pressure | None) -> None:
    assert parse_level(number) is level


def test_stalls() -> None:
    assert parse_stall(recording("stall-none")) is Pressure.NORMAL
    assert parse_stall(recording("stall-some")) is Pressure.WARNING
    assert parse_stall(recording("stall-most")) is Pressure.CRITICAL
    assert parse_stall("") is None


def test_available_memory() -> None:
    text = recording("meminfo")
    assert parse_available(text) is Pressure.NORMAL
    assert parse_available(text.replace("21400120", "2900000")) is Pressure.WARNING
    assert parse_available(text.replace("21400120", "1500000")) is Pressure.CRITICAL
    assert parse_available("MemTotal: 5 kB") is None


def test_routes_of_macos() -> None:
    assert parse_route_get(recording("route-home")) is False
    assert parse_route_get(recording("route-iphone")) is True
    assert parse_route_get(recording("route-vpn")) is False
    assert parse_route_get("route: writing to routing socket: not in table\n") is None


@pytest.mark.parametrize(
    ("text", "metered"),
    [
        ("u 0\n", None),
        ("u 1\n", True),
        ("u 2\n", False),
        ("u 3\n", True),
        ("u 4\n", False),
        ("u 9\n", None),
        ("", None),
    ],
)
def test_network_manager(text: str, metered: bool | None) -> None:
    assert parse_network_manager(text) is metered


def test_default_routes_of_linux() -> None:
    assert parse_default_devices(recording("proc-net-route")) == [("eth0", "192.0.2.1"), ("wlan0", "172.20.10.1")]
    assert parse_default_devices("") == []


def test_names_of_bundles() -> None:
    assert parse_bundle("/Applications/Final Cut Pro.app/Contents/MacOS/Final Cut Pro") == "Final Cut Pro"
    inner = "/Applications/zoom.us.app/Contents/Frameworks/aomhost.app/Contents/MacOS/aomhost"
    assert parse_bundle(inner) == "aomhost"
    assert parse_bundle("/usr/sbin/sshd") is None


def test_locked_sessions() -> None:
    assert parse_locked("Type=wayland\nLockedHint=yes\n") is True
    assert parse_locked("Type=x11\nLockedHint=no\n") is False
    assert parse_locked("Type=tty\nLockedHint=no\n") is None
    assert parse_locked("") is None


def test_signals_of_sleep() -> None:
    found = [parse_signal(line) for line in recording("gdbus-monitor").splitlines()]
    assert found == [None, None, None, True, False, None]


def test_what_others_use_of_the_processor() -> None:
    assert other_percent(60.0, own_seconds=10.0, passed_seconds=5.0, cores=8) == pytest.approx(35.0)
    assert other_percent(10.0, own_seconds=50.0, passed_seconds=5.0, cores=8) == 0.0
    assert other_percent(10.0, own_seconds=1.0, passed_seconds=0.0, cores=8) == 10.0
