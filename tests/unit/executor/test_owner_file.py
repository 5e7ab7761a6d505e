"""The owner's file: read, refused with reasons, changed in one place, and watched."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.facts import Pressure, Thermal
from minions.domain.names import Preference
from minions.domain.owner_policy import DEDICATED, GIGABYTE, Mode, OnReturn, OwnerPolicy
from minions.domain.preferences import TimedPreference
from minions.domain.schedule import Schedule, Span
from minions.executor.evening_preferences import PreferencesUnreadable, forget_preferences, prefer, read_preferences
from minions.executor.owner_file import (
    OwnerFileInvalid,
    change,
    owner_file,
    parse_owner_file,
    read_owner_file,
    render,
    template,
)
from minions.executor.owner_keys import OWNER_KEYS
from minions.executor.owner_watch import OwnerFileWatcher

NOW = datetime(2026, 12, 2, 21, 30, tzinfo=UTC)
EVENING = TimedPreference(Preference("search", "msmarco"), datetime(2026, 12, 3, 8, tzinfo=UTC))


def test_every_field_of_the_policy_has_its_key() -> None:
    fields = [key.field for key in OWNER_KEYS]
    assert sorted(fields) == sorted(OwnerPolicy.__dataclass_fields__)
    assert len({key.name for key in OWNER_KEYS}) == len(OWNER_KEYS)


def test_an_empty_file_and_the_template_change_nothing() -> None:
    assert parse_owner_file("") == (OwnerPolicy(), [])
    assert parse_owner_file(template()) == (OwnerPolicy(), [])


ANY = TimedPreference(Preference())
POLICIES = st.builds(
    OwnerPolicy,
    mode=st.sampled_from(list(Mode)),
    start_after_idle_minutes=st.sampled_from([5.0, 7.25, 1440.0]),
    continue_after_idle_minutes=st.sampled_from([1.0, 0.5]),
    busy_within_seconds=st.sampled_from([2.0, 10.0, 30.0]),
    on_return=st.sampled_from(list(OnReturn)),
    schedule=st.sampled_from(
        [Schedule(), Schedule((Span.parse("mon-fri 19:00-08:00"), Span.parse("weekend 00:00-24:00")))]
    ),
    mains_only=st.booleans(),
    highest_thermal=st.sampled_from([None, *Thermal]),
    highest_pressure=st.sampled_from([None, *Pressure]),
    most_other_cpu_percent=st.sampled_from([None, 12.5]),
    excluding_programs=st.sampled_from([(), ("zoom.us", 'a "quoted" näme', "back\\slash")]),
    memory_mb=st.sampled_from([None, 256, 48_000]),
    disk_limit_bytes=st.sampled_from([None, 12 * GIGABYTE, 500_000_000]),
    model_cache_limit_bytes=st.sampled_from([None, 0, 1_234_567 * 1000]),
    kinds=st.sampled_from([("embed",), ("embed", "complete")]),
    teams=st.sampled_from([(), ("search", "papers")]),
    preferences=st.sampled_from(
        [(), (TimedPreference(Preference("search", None, "x")), TimedPreference(Preference()))]
    ),
)


@given(POLICIES)
def test_what_is_written_is_what_is_read(policy: OwnerPolicy) -> None:
    assert parse_owner_file(render(policy)) == (policy, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nstart_after_idle_minuts = 3", "line 2: start_after_idle_minuts is no key; did you mean start_after_idle_"),
        ("colour = 1", "line 1: colour is no key; known are mode, "),
        ("[limits]\nmemory_mb = 1", "line 1: limits is no key"),
        ('mode = "sometimes"', 'line 1: mode: must be one of "auto", "always", "never"'),
        ("mode = auto", "is no TOML: invalid value (at line 1, column 8)"),
        ('mains_only = "yes"', "mains_only: must be true or false, without quotes"),
        ("mains_only = 1", "mains_only: must be true or false"),
        ('busy_within_seconds = "10"', "must be a number from 2 to 3,600, without quotes"),
        ("busy_within_seconds = true", "must be a number from 2 to 3,600"),
        ("busy_within_seconds = 1", "must be from 2 to 3,600, and is 1"),
        ("busy_within_seconds = nan", "must be from 2 to 3,600, and is nan"),
        ("memory_mb = 4096.5", 'must be a whole number from 256 to 4,000,000, without quotes; or "default"'),
        ('highest_thermal = "warm"', '"nominal", "fair", "serious", "critical"; or "any"'),
        ("disk_gb = -1", 'must be from 0 to 1,000,000, and is -1; or "any"'),
        ('schedule = ["mon 8-9"]', "schedule: 'mon 8-9' is no span of time"),
        ('schedule = "mon 08:00-09:00"', "must be a list of texts"),
        ("excluding_programs = [1]", "must be a list of texts"),
        ('kinds = ["embed", "dance"]', "kinds: 'dance': known are embed, complete"),
        (
            'kinds = ["embed", "command"]',
            "an executor of commands is one of its own, `minions executor --kind command`",
        ),
        ("kinds = []", "kinds: an empty list"),
        ('teams = ["A Team"]', "'A Team' is not a name"),
        ('preferences = ["a/b/c/d"]', "'a/b/c/d' is no preference"),
        ("continue_after_idle_minutes = 9", "line 1: continue_after_idle_minutes (540 s) must not be longer"),
        ("busy_within_seconds = 90", "must not be longer than continue_after_idle_minutes (60 s)"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, message: str) -> None:
    _, errors = parse_owner_file(text)
    assert len(errors) == 1
    assert message in errors[0].message


def test_all_errors_are_told_at_once() -> None:
    _, errors = parse_owner_file('mode = 1\nteams = "x"\n# mode = "auto"\nnonsense = 2\n')
    assert [error.message[:7] for error in errors] == ["line 1:", "line 2:", "line 4:"]
    assert [error.field for error in errors] == ["mode", "teams", "nonsense"]


def test_thresholds_do_not_matter_where_nobody_is_minded() -> None:
    assert parse_owner_file("start_after_idle_minutes = 0\nbusy_within_seconds = 100")[1] == []


def test_it_lies_beside_the_settings_file(tmp_path: Path) -> None:
    assert owner_file({"MINIONS_CONFIG": str(tmp_path / "config.toml")}) == tmp_path / "owner.toml"


def test_reading_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "owner.toml"
    path.write_bytes(b'mode = "\xff"')
    with pytest.raises(OwnerFileInvalid, match="is not UTF-8") as caught:
        read_owner_file(path)
    assert str(path) in caught.value.message
    with pytest.raises(FileNotFoundError):
        read_owner_file(tmp_path / "absent")


OWN = """# mine
mode = "auto"   # for now
schedule = [
  "mon-fri 19:00-08:00",  # nights
  "weekend 00:00-24:00",
]
# start_after_idle_minutes = 5
excluding_programs = ["a # b", "c"]
"""


@pytest.mark.parametrize(
    ("name", "value", "before", "after"),
    [
        ("mode", "always", 'mode = "auto"   # for now', 'mode = "always"   # for now'),
        ("start_after_idle_minutes", "7.5", "# start_after_idle_minutes = 5", "start_after_idle_minutes = 7.5"),
        ("excluding_programs", "zoom.us, Final Cut Pro", '["a # b", "c"]', '["zoom.us", "Final Cut Pro"]'),
        ("excluding_programs", '["x"]', '["a # b", "c"]', '["x"]'),
    ],
)
def test_one_key_is_changed_and_all_else_stays(tmp_path: Path, name: str, value: str, before: str, after: str) -> None:
    path = tmp_path / "owner.toml"
    path.write_text(OWN)
    change(path, name, value)
    assert path.read_text() == OWN.replace(before, after)
    assert [each.name for each in tmp_path.iterdir()] == ["owner.toml"]


def test_a_list_of_several_lines_is_exchanged_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "owner.toml"
    path.write_text(OWN)
    policy = change(path, "schedule", "daily 22:00-06:00")
    assert policy.schedule == Schedule((Span.parse("daily 22:00-06:00"),))
    assert path.read_text().splitlines()[:3] == [
        "# mine",
        'mode = "auto"   # for now',
        'schedule = ["daily 22:00-06:00"]',
    ]
    assert read_owner_file(path).excluding_programs == ("a # b", "c")


def test_a_key_that_is_not_there_is_added(tmp_path: Path) -> None:
    path = tmp_path / "owner.toml"
    path.write_text('mode = "auto"')
    change(path, "memory_mb", "8192")
    assert path.read_text() == 'mode = "auto"\nmemory_mb = 8192\n'
    assert change(path, "memory_mb", "default").memory_mb is None


def test_without_a_file_the_template_is_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "new" / "owner.toml"
    assert change(path, "mode", "never") == OwnerPolicy(mode=Mode.NEVER)
    assert '\nmode = "never"\n' in path.read_text()
    assert "# mains_only = true" in path.read_text()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("modus", "always", "did you mean mode"),
        ("mode", "perhaps", "mode: must be one of"),
        ("continue_after_idle_minutes", "60", "must not be longer than start_after_idle_minutes"),
    ],
)
def test_a_bad_change_writes_nothing(tmp_path: Path, name: str, value: str, message: str) -> None:
    path = tmp_path / "owner.toml"
    path.write_text(OWN)
    with pytest.raises(OwnerFileInvalid, match=message):
        change(path, name, value)
    assert path.read_text() == OWN


def test_a_broken_line_is_mended_by_its_own_change_only(tmp_path: Path) -> None:
    path = tmp_path / "owner.toml"
    path.write_text("mode = auto\nmains_only = false\n")
    with pytest.raises(OwnerFileInvalid, match="is no TOML"):
        change(path, "mains_only", "true")
    change(path, "mode", "auto")
    assert path.read_text() == 'mode = "auto"\nmains_only = false\n'


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.toml"
    kept.write_text(OWN)
    link = tmp_path / "owner.toml"
    link.symlink_to(kept)
    change(link, "mode", "never")
    assert link.is_symlink()
    assert 'mode = "never"' in kept.read_text()


def test_preferences_for_an_evening(tmp_path: Path) -> None:
    path = tmp_path / "preferences.json"
    assert read_preferences(path) == ()
    other = TimedPreference(Preference("papers"))
    prefer(path, other, NOW)
    assert prefer(path, EVENING, NOW) == (EVENING, other)
    assert read_preferences(path) == (EVENING, other)
    assert prefer(path, other, NOW) == (other, EVENING), "each once, the last one said is the dearest"
    later = datetime(2026, 12, 3, 9, tzinfo=UTC)
    assert prefer(path, TimedPreference(Preference("x")), later)[1:] == (other,), "the lapsed are forgotten"
    forget_preferences(path)
    assert read_preferences(path) == ()


@pytest.mark.parametrize("text", ["{", "[1]", '[{"preference": "a b", "until": null}]', '{"a": 1}',
                                  '[{"preference": "a", "until": "2026-12-03T08:00:00"}]'])  # fmt: skip
def test_preferences_that_nobody_wrote(tmp_path: Path, text: str) -> None:
    path = tmp_path / "preferences.json"
    path.write_text(text)
    with pytest.raises(PreferencesUnreadable):
        read_preferences(path)


def put(path: Path, text: str) -> None:
    """Write, so that its time differs from the last write's even on a coarse clock."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_a_change_counts_at_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "owner.toml"
    watcher = OwnerFileWatcher(path, tmp_path / "preferences.json")
    first = watcher.look()
    assert (first.policy, first.problem, first.is_new) == (DEDICATED, "", True)
    assert not watcher.look().is_new
    put(path, 'mode = "never"')
    changed = watcher.look()
    assert (changed.policy.mode, changed.is_new) == (Mode.NEVER, True)
    put(path, 'mode = "never"  # still')
    assert not watcher.look().is_new


def test_a_file_that_breaks_leaves_what_it_last_said(tmp_path: Path) -> None:
    path = tmp_path / "owner.toml"
    put(path, "hysteresis_seconds = 7")
    watcher = OwnerFileWatcher(path, tmp_path / "preferences.json")
    assert watcher.look().policy.hysteresis_seconds == 7
    put(path, "hysteresis_seconds = x")
    broken = watcher.look()
    assert broken.policy.hysteresis_seconds == 7
    assert broken.problem.startswith(f"{path}: is no TOML")
    assert broken.problem.endswith("(what it said before counts)")
    path.unlink()
    gone = watcher.look()
    assert (gone.policy.hysteresis_seconds, gone.problem) == (7, f"{path} is gone, what it last said counts")
    put(path, "hysteresis_seconds = 8")
    assert (watcher.look().policy.hysteresis_seconds, watcher.look().problem) == (8, "")


def test_a_file_that_may_be_read_again_counts_though_it_was_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "owner.toml"
    put(path, "hysteresis_seconds = 7")
    path.chmod(0)
    watcher = OwnerFileWatcher(path, tmp_path / "preferences.json")
    with monkeypatch.context() as refused:
        refused.setattr(Path, "read_bytes", _refuse)  # root may read it all the same
        assert "cannot be read: permission denied" in watcher.look().problem
    path.chmod(0o600)
    assert (watcher.look().policy.hysteresis_seconds, watcher.look().problem) == (7, "")


def _refuse(_: Path) -> bytes:
    raise PermissionError(errno.EACCES, "Permission denied")


def test_a_file_that_is_broken_from_the_start_means_never(tmp_path: Path) -> None:
    path = tmp_path / "owner.toml"
    put(path, "mode = 1")
    watched = OwnerFileWatcher(path, tmp_path / "preferences.json").look()
    assert watched.policy.mode is Mode.NEVER
    assert "mode: must be one of" in watched.problem
    assert watched.problem.endswith("(mode = never counts until it is valid)")


def test_evening_preferences_come_before_those_of_the_file(tmp_path: Path) -> None:
    path, evening = tmp_path / "owner.toml", tmp_path / "preferences.json"
    put(path, 'preferences = ["papers"]')
    watcher = OwnerFileWatcher(path, evening)
    watcher.look()
    prefer(evening, EVENING, NOW)
    watched = watcher.look()
    assert watched.is_new
    assert [str(each.preference) for each in watched.policy.preferences] == ["search/msmarco/*", "papers/*/*"]
    put(evening, "{")
    assert watcher.look().policy == watched.policy
    assert "is not what this program wrote there" in watcher.look().problem


def test_a_dedicated_machine_differs_where_it_should() -> None:
    assert replace(DEDICATED, mode=Mode.AUTO) != OwnerPolicy()
    assert parse_owner_file(render(DEDICATED)) == (DEDICATED, [])


def test_the_page_for_owners_has_every_key_with_its_default() -> None:
    page = (Path(__file__).parents[3] / "docs" / "lending.md").read_text("utf-8")
    for key in OWNER_KEYS:
        value = key.write(getattr(OwnerPolicy(), key.field))
        assert f"| `{key.name}` | `{value}` | {key.help} |" in page, key.name


def test_the_example_of_the_page_is_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "lending.md").read_text("utf-8")
    example = page.split("```toml\n")[1].split("```")[0]
    assert parse_owner_file(example)[1] == []
