"""What S3 refuses, said so that one can act on it."""

from __future__ import annotations

import pytest

from minions.domain.errors import AccessDenied, MinionsError, ObjectMissing, Unavailable
from minions.objects.base import ObjectStore
from minions.objects.open import open_input, open_objects
from minions.objects.s3 import S3Objects, S3Settings
from tests.contracts.objects.conftest import settings_of
from tests.services.s3 import S3Service


async def failures(objects: ObjectStore) -> list[MinionsError]:
    """The errors of a read, a write and a listing."""
    found: list[MinionsError] = []
    for attempt in (objects.read("x"), objects.check_writable(), drained(objects)):
        with pytest.raises(MinionsError) as failed:
            await attempt
        found.append(failed.value)
    return found


async def drained(objects: ObjectStore) -> None:
    async for _ in objects.list("x"):
        pass


async def test_wrong_keys_are_named(s3: S3Service) -> None:
    wrong = S3Settings(s3.endpoint, s3.region, s3.access_key, "not the secret")
    for error in await failures(S3Objects(s3.bucket, "", wrong)):
        assert isinstance(error, AccessDenied)
        assert s3.bucket in error.message
        assert "AWS_ACCESS_KEY_ID" in error.advice
        assert "not the secret" not in error.message


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    nowhere = S3Settings("http://127.0.0.1:9", "us-east-1", "key", "secret")
    for error in await failures(S3Objects("bucket", "", nowhere)):
        assert isinstance(error, Unavailable)
        assert "http://127.0.0.1:9" in error.message
        assert "\n" not in error.message


async def test_a_bucket_that_is_not_there(s3: S3Service) -> None:
    objects = S3Objects("not-a-bucket", "", settings_of(s3))
    with pytest.raises(ObjectMissing, match=r"no bucket 'not-a-bucket'"):
        await objects.read("x")
    with pytest.raises(ObjectMissing, match=r"no bucket 'not-a-bucket'"):
        await objects.check_writable()


async def test_the_environment_is_enough(s3: S3Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    objects = open_objects(f"s3://{s3.bucket}/from-environment")
    await objects.write("in/1.jsonl", b"{}")
    store, key = open_input(f"s3://{s3.bucket}/from-environment/in/1.jsonl")
    assert await store.read(key) == b"{}"


def test_an_input_is_never_a_file_of_the_server() -> None:
    with pytest.raises(AccessDenied, match="server's machine"):
        open_input("file:///etc/passwd")
