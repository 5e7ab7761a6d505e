"""Paths of outputs: inside the project, each of one job only, and none that belongs to something else. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from minions.domain.errors import FieldError

_PATH_BYTES = 1024
_PIECE_BYTES = 200  # of a file's name, so that a temporary name beside it still fits
_MOST_ERRORS = 10


def output_errors(outputs: Iterator[str] | Sequence[str]) -> list[FieldError]:
    """Outputs that two jobs would share, one inside the other included; at most a few are told."""
    owner: dict[str, int] = {}
    folder_of: dict[str, int] = {}
    errors: list[FieldError] = []
    for index, output in enumerate(outputs):
        name = _as_one_file(output)
        other = owner.get(name, folder_of.get(name))
        folders = folders_of(name)
        other = next((owner[each] for each in folders if each in owner), None) if other is None else other
        if other is not None:
            said = f"jobs {other} and {index} would write the same output {output!r}"
            errors.append(FieldError("run.output", "duplicate", said))
            if len(errors) == _MOST_ERRORS:
                break
            continue
        owner[name] = index
        for folder in folders:
            folder_of.setdefault(folder, index)
    return errors


def taken_errors(outputs: Iterable[str], taken: Mapping[str, str]) -> list[FieldError]:
    """Outputs where something else lies, or around or below it; at most a few are told.

    taken: paths, and what is said of each, such as "is an input; write elsewhere".
    """
    files = {_as_one_file(path): path for path in taken}
    around: dict[str, str] = {}
    for name, path in files.items():
        for folder in folders_of(name):
            around.setdefault(folder, path)
    errors: list[FieldError] = []
    for index, output in enumerate(outputs):
        name = _as_one_file(output)
        met = next((files[each] for each in (name, *folders_of(name)) if each in files), None) or around.get(name)
        if met is not None:
            there = "it" if met == output else met
            said = f"run.output: job {index} would write {output!r}, but {there} {taken[met]}"
            errors.append(FieldError("run.output", "taken", said))
            if len(errors) == _MOST_ERRORS:
                break
    return errors


def folders_of(path: str) -> list[str]:
    """The directories around it, the outermost first."""
    pieces = path.split("/")
    return ["/".join(pieces[:count]) for count in range(1, len(pieces))]


def _as_one_file(path: str) -> str:
    """Paths that a Mac takes for one file are the same."""
    return unicodedata.normalize("NFC", path).casefold()


def path_problem(path: str) -> str | None:
    """Why this is no path inside the project; None when it is one."""
    pieces = path.split("/")
    if path.startswith("/") or any(piece in ("", ".", "..") for piece in pieces):
        return "must be a plain path inside the project, without '.', '..' and empty pieces"
    if any(_hidden(piece) == ".git" for piece in pieces):
        return "must not lie in .git"
    if _hidden(pieces[0]) == ".minions":
        return "must not lie in .minions, which is Minions' own"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in path) or "\\" in path:
        return "must have no control characters and no backslash"
    if len(path.encode()) > _PATH_BYTES or any(len(piece.encode()) > _PIECE_BYTES for piece in pieces):
        return f"must have at most {_PATH_BYTES} bytes, and {_PIECE_BYTES} between two slashes"
    return None


def _hidden(piece: str) -> str:
    """As a Mac's file system sees it, which leaves out what has no width."""
    return _as_one_file("".join(each for each in piece if unicodedata.category(each) != "Cf"))
