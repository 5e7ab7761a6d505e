"""Keys, URIs and patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.objects import keys
from minions.objects.keys import ObjectUri

PIECE = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=20
).filter(lambda piece: piece not in (".", ".."))
KEY = st.lists(PIECE, min_size=1, max_size=5).map("/".join)


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("s3://data/in/1.jsonl", ObjectUri("s3", "data", "in/1.jsonl")),
        ("s3://data/in/*.jsonl", ObjectUri("s3", "data", "in/*.jsonl")),
        ("s3://data/in/", ObjectUri("s3", "data", "in/")),
        ("s3://data", ObjectUri("s3", "data", "")),
        ("s3://data/100%25", ObjectUri("s3", "data", "100%25")),
        ("file:///home/in.jsonl", ObjectUri("file", "", "home/in.jsonl")),
        ("file:///a%20b/c", ObjectUri("file", "", "a b/c")),
    ],
)
def test_uris_are_read(text: str, uri: ObjectUri) -> None:
    assert ObjectUri.parse(text) == uri


@pytest.mark.parametrize(
    "text",
    [
        "in.jsonl",
        "http://x/y",
        "s3:///key",
        "s3://",
        "s3://b u/x",
        "file://host/x",
        "s3://b/a//b",
        "s3://b/../x",
        "s3://b//",
        "s3://b/a\\b",
        "s3://b/nul\0",
        "file:///a/%2e%2e/b",
    ],
)
def test_what_is_no_uri_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write (s3|file)://|key"):
        ObjectUri.parse(text)


@given(KEY, st.sampled_from(["s3", "file"]))
def test_uris_read_back_as_they_were_written(key: str, scheme: keys.Scheme) -> None:
    uri = ObjectUri(scheme, "bucket" if scheme == "s3" else "", key)
    assert ObjectUri.parse(str(uri)) == uri


@given(KEY)
def test_ordinary_keys_are_keys(key: str) -> None:
    assert keys.check_key(key) == key
    assert keys.join("a/b/", key) == f"a/b/{key}"
    assert keys.join("", key) == key


@pytest.mark.parametrize(
    "key", ["", "/", "a/", "/a", "a//b", ".", "..", "a/./b", "a/../b", "a\0", "a\n", "a\\b", "\ud800"]
)
def test_what_could_leave_its_folder_is_no_key(key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        keys.check_key(key)


def test_lengths_are_limited_in_bytes() -> None:
    assert keys.check_key("é" * 127)
    with pytest.raises(ValueError, match="255 bytes"):
        keys.check_key("é" * 128)
    with pytest.raises(ValueError, match="1024 bytes"):
        keys.check_key("/".join(["a" * 200] * 6))


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("in/", ["in/a", "in/b/c"], ["in", "inn/a", "a/in/b"]),
        ("", ["a", "a/b"], []),
        ("in/*.jsonl", ["in/a.jsonl", "in/.jsonl"], ["in/a/b.jsonl", "in/a.jsonl.gz", "in/axjsonl"]),
        ("in/part-??", ["in/part-01", "in/part-é1"], ["in/part-1", "in/part-/1"]),
        ("**/a.csv", ["a.csv", "x/a.csv", "x/y/a.csv"], ["xa.csv"]),
        ("in/**/a.csv", ["in/a.csv", "in/x/y/a.csv"], ["a.csv", "in/xa.csv"]),
        ("in/**", ["in/a", "in/a/b"], ["in"]),
        ("**/x/**/y", ["x/y", "x/x/y", "a/x/b/x/y"], ["y", "x/y/z"]),
        ("*a*b", ["ab", "aab", "xaxbxab"], ["aba", "a/b"]),
        ("a+(b)[c]", ["a+(b)[c]"], ["aab", "a+(b)c"]),
        ("d=*/p*t", ["d=1/part", "d=/pt"], ["d=1/x/part"]),
    ],
)
def test_patterns(pattern: str, covered: list[str], not_covered: list[str]) -> None:
    assert [key for key in covered + not_covered if keys.matches(pattern, key)] == covered


@given(KEY)
def test_a_key_without_wildcards_covers_itself_and_lies_below_its_folder(key: str) -> None:
    if not keys.is_pattern(key):
        assert keys.matches(key, key)
    folder = keys.folder_of(key)
    assert folder == "" or key.startswith(folder + "/")


def test_hard_patterns_take_no_time() -> None:
    assert not keys.matches("*" * 200 + "x", "a" * 1000)
    assert not keys.matches("a*" * 12 + "x", "a" * 250)
    assert not keys.matches("**/a/" * 30 + "x", "a/" * 100 + "y")


@pytest.mark.parametrize(
    ("key", "folder"), [("a/b/*.x", "a/b"), ("a/*/b/c", "a"), ("*", ""), ("a/b/", "a/b"), ("", "")]
)
def test_the_folder_to_list(key: str, folder: str) -> None:
    assert keys.is_pattern(key)
    assert keys.folder_of(key) == folder


@pytest.mark.parametrize(
    ("given_name", "safe"),
    [
        ("in.jsonl", "in.jsonl"),
        ("/etc/passwd", "passwd"),
        ("C:\\data\\in 1.csv", "in_1.csv"),
        ("..", "unnamed"),
        ("", "unnamed"),
        (".hidden", "hidden"),
        ("日本.jsonl.gz", "_.jsonl.gz"),
        ("a" * 500 + ".parquet", "a" * 112 + ".parquet"),
    ],
)
def test_filenames_are_made_safe(given_name: str, safe: str) -> None:
    assert keys.safe_filename(given_name) == safe


@given(st.text())
def test_any_filename_makes_a_key(name: str) -> None:
    key = keys.upload_key("upl_1", name)
    assert key.startswith("uploads/upl_1/")
    assert key.count("/") == 2


def test_parts_sort_in_input_order() -> None:
    found = [
        keys.part_key("tsk_1", subtask, start, "acq_1", "jsonl.zst")
        for subtask in (0, 2, 10)
        for start in (0, 5, 10**9)
    ]
    assert found == sorted(found)
    assert found[1] == "tasks/tsk_1/parts/00000000/0000000000000005-acq_1.jsonl.zst"
    assert keys.manifest_key("tsk_1") == "tasks/tsk_1/manifest.json"
