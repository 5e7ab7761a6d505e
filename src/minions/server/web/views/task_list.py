"""The list of tasks: filters from and into the URL; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from minions.domain.names import NAME
from minions.domain.task_filter import TaskFilter

KINDS = ("embed", "complete", "command")
PILLS = (
    ("", "All"),
    ("active", "Active"),
    ("paused", "Paused"),
    ("completed", "Completed"),
    ("failed", "Failed"),
    ("cancelled", "Cancelled"),
)
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What the URL asks for; what it asks for wrongly is as if it were not there."""

    NAMES: ClassVar[tuple[str, ...]] = ("q", "team", "project", "kind", "state")

    text: str = ""
    team: str = ""
    project: str = ""
    kind: str = ""
    state: str = ""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> ListQuery:
        def name(key: str) -> str:
            value = query.get(key, "")
            return value if NAME.fullmatch(value) else ""

        state, kind = query.get("state", ""), query.get("kind", "")
        return cls(
            text=query.get("q", "").strip()[:_LONGEST_TEXT].replace("\0", ""),
            team=name("team"),
            project=name("project"),
            kind=kind if kind in KINDS else "",
            state=state if state in dict(PILLS) else "",
        )

    def values(self) -> dict[str, str]:
        """As the query of a URL, and as hidden fields of a form."""
        given = (self.text, self.team, self.project, self.kind, self.state)
        return {name: value for name, value in zip(self.NAMES, given, strict=True) if value}

    def filter(self, groups: Mapping[str, tuple[tuple[str, ...], bool | None]]) -> TaskFilter:
        """groups: the states that each value of `state` stands for, and whether paused."""
        states, paused = groups.get(self.state, (None, None))
        return TaskFilter(
            team=self.team or None,
            project=self.project or None,
            kind=self.kind or None,
            text=self.text or None,
            states=states,
            paused=paused,
        )

    @property
    def narrows(self) -> bool:
        """Whether anything but the state is asked for."""
        return bool(self.text or self.team or self.project or self.kind)


def in_words(query: ListQuery) -> str:
    """What a filter means: `completed tasks of team search with "msmarco" in their name`."""
    words = dict(PILLS)[query.state].lower() + " tasks" if query.state else "tasks"
    if query.kind:
        words += f" of kind {query.kind}"
    if query.team:
        words += f" of team {query.team}"
    if query.project:
        words += f" in project {query.project}"
    if query.text:
        words += f" with “{query.text}” in their name"
    return words
