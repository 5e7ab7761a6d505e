"""What results call an object: (object, position) must tell a row from every other of its task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from minions.server.actions.acquire_subtask import input_name


@dataclass
class _Specification:
    inputs: tuple[str, ...]


@dataclass
class _Task:
    specification: _Specification


def name(uri: str, inputs: tuple[str, ...]) -> str:
    return input_name(cast("Any", _Task(_Specification(inputs))), uri)


def test_a_single_upload_is_called_by_its_file_name() -> None:
    uri = "objects:uploads/upl_00000001/passages.jsonl"
    assert name(uri, (uri,)) == "passages.jsonl"


def test_uploads_of_the_same_name_are_told_apart() -> None:
    uris = tuple(f"objects:uploads/upl_0000000{number}/part.jsonl" for number in (1, 2))
    assert len({name(uri, uris) for uri in uris}) == 2


def test_objects_of_the_same_name_in_other_folders_are_told_apart() -> None:
    uris = ("s3://bucket/a/part.jsonl", "s3://bucket/b/part.jsonl")
    assert {name(uri, ("s3://bucket/*/part.jsonl",)) for uri in uris} == set(uris)
