"""Access tokens, uploads, and what the deployment knows of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from minions.domain.lifecycle import server_gap_seconds
from minions.store.database import Connection, Record, all_of, one_of


@dataclass(frozen=True, slots=True)
class Token:
    """A token, without its secret."""

    token_id: int
    name: str
    scope: str
    teams: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class TokenStanding:
    """A token as people see it."""

    token: Token
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class Deployment:
    """label: production or development. link_secret: what the server signs its own links with."""

    label: str
    link_secret: bytes


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that somebody put into the object store, to be named as an input."""

    upload_id: int
    filename: str
    size_bytes: int
    key: str
    token_id: int | None
    sha256: bytes | None


async def insert_token(
    connection: Connection,
    *,
    name: str,
    scope: str,
    teams: Sequence[str] | None,
    secret_sha256: bytes,
    expires_seconds: float | None,
) -> TokenStanding | None:
    """Store a token by the hash of its secret. None when that secret exists already."""
    reached = None if teams is None else list(teams)
    row = await one_of(connection, "insert_token", name, scope, reached, secret_sha256, expires_seconds)
    return _standing(row) if row else None


async def find_token(connection: Connection, secret_sha256: bytes) -> Token | None:
    """The token with this secret, unless it was revoked or has expired."""
    row = await one_of(connection, "find_token", secret_sha256)
    return _token(row) if row else None


async def read_token(connection: Connection, token_id: int) -> Token | None:
    """The token of this number, unless it was revoked or has expired."""
    row = await one_of(connection, "read_token", token_id)
    return _token(row) if row else None


async def insert_sign_in(connection: Connection, key_sha256: bytes, token_id: int, seconds: float) -> datetime:
    """Store a link that signs in once in the name of this token. Returns until when."""
    row = await one_of(connection, "insert_sign_in", key_sha256, token_id, seconds)
    assert row is not None
    return row["expires_at"]


async def use_sign_in(connection: Connection, key_sha256: bytes) -> int | None:
    """Use such a link up; the number of its token, or None when it is unknown, used or too old."""
    row = await one_of(connection, "use_sign_in", key_sha256)
    return row["token_id"] if row else None


async def note_tokens_used(connection: Connection, tokens: Sequence[int]) -> None:
    await all_of(connection, "note_token_used", list(tokens))


async def list_tokens(connection: Connection) -> list[TokenStanding]:
    return [_standing(row) for row in await all_of(connection, "list_tokens")]


async def list_administrators(connection: Connection) -> list[Token]:
    """The tokens that are valid now and reach everything."""
    return [_token(row) for row in await all_of(connection, "list_administrators")]


async def other_tokens_named(connection: Connection, name: str, secret_sha256: bytes) -> list[int]:
    """Tokens of this name that are valid now, but for the one with this secret."""
    return [row["token_id"] for row in await all_of(connection, "other_tokens_named", name, secret_sha256)]


async def revoke_token(connection: Connection, token_id: int) -> bool:
    return await one_of(connection, "revoke_token", token_id) is not None


async def insert_upload(
    connection: Connection, *, filename: str, size_bytes: int, key: str, token_id: int | None, sha256: bytes | None
) -> int:
    """Announce an upload; returns its number."""
    row = await one_of(connection, "insert_upload", filename, size_bytes, key, token_id, sha256)
    assert row is not None
    return row["upload_id"]


async def name_upload(connection: Connection, upload_id: int, key: str) -> None:
    """Set the key, which contains the number."""
    await all_of(connection, "name_upload", upload_id, key)


async def read_upload(connection: Connection, upload_id: int) -> Upload | None:
    row = await one_of(connection, "read_upload", upload_id)
    if row is None:
        return None
    return Upload(
        row["upload_id"], row["filename"], row["size_bytes"], row["object_key"], row["token_id"], row["sha256"]
    )


async def keep_uploads(connection: Connection, uploads: Sequence[int]) -> set[int]:
    """Those of these uploads that are there; none of them is withdrawn before this transaction ends."""
    return {row["upload_id"] for row in await all_of(connection, "keep_uploads", sorted(set(uploads)))}


async def withdraw_uploads(connection: Connection, older_seconds: float, most: int) -> int:
    """Take uploads that no task names out of everybody's reach; how many. In a transaction that is READ COMMITTED.

    A submission keeps its uploads until its task is committed. So once they are locked here, it is either seen by the
    next statement, or finds them gone. The statement that locks them sees the tasks as they were when it began, which
    is too early: therefore it is asked twice what no task names.
    """
    if found := await _unnamed_uploads(connection, older_seconds, most, None):
        locked = [row["upload_id"] for row in await all_of(connection, "lock_uploads", found)]
        found = await _unnamed_uploads(connection, older_seconds, most, locked)
        await all_of(connection, "withdraw_uploads", found)
    return len(found)


async def _unnamed_uploads(
    connection: Connection, older_seconds: float, most: int, among: Sequence[int] | None
) -> list[int]:
    return [row["upload_id"] for row in await all_of(connection, "unnamed_uploads", older_seconds, most, among)]


async def withdrawn_uploads(connection: Connection, most: int) -> list[tuple[int, str]]:
    """(number, filename) of uploads that were withdrawn, and whose objects may be there still."""
    return [(row["upload_id"], row["filename"]) for row in await all_of(connection, "withdrawn_uploads", most)]


async def delete_uploads(connection: Connection, uploads: Sequence[int]) -> None:
    """Forget uploads that were withdrawn, and whose objects are deleted."""
    await all_of(connection, "delete_uploads", list(uploads))


async def read_deployment(connection: Connection) -> Deployment:
    """Raises AssertionError before the first migration."""
    row = await one_of(connection, "read_deployment")
    assert row is not None
    return Deployment(row["label"], row["link_secret"])


async def note_serving(connection: Connection, lease_seconds: float) -> None:
    """A server is there; it says so several times in what is a gap under this lease."""
    await all_of(connection, "note_serving", server_gap_seconds(lease_seconds))


async def leap_ids(connection: Connection) -> None:
    """A server begins: fences and uploads get numbers that were never given, whatever a restored database says."""
    await all_of(connection, "leap_ids")


async def note_patience(connection: Connection, lease_seconds: float, offline_seconds: float) -> None:
    """After how much silence an executor is told as offline: one that holds subtasks, and one that holds none."""
    await all_of(connection, "note_patience", lease_seconds, offline_seconds)


async def serving_seconds(connection: Connection, lease_seconds: float) -> float:
    """For how long executors could reach a server without a gap, which is shorter than the lease."""
    row = await one_of(connection, "serving_seconds", server_gap_seconds(lease_seconds))
    return row["seconds"] if row else 0.0


def _token(row: Record) -> Token:
    return Token(row["token_id"], row["name"], row["scope"], None if row["teams"] is None else tuple(row["teams"]))


def _standing(row: Record) -> TokenStanding:
    return TokenStanding(_token(row), row["created_at"], row["expires_at"], row["last_used_at"])
