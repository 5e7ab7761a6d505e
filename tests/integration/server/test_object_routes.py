"""Objects behind links of the server's own."""

from __future__ import annotations

from tests.integration.server.driving import Served, submit, until


async def test_who_expects_another_version_of_an_object_gets_nothing_of_this_one(served: Served) -> None:
    """Whoever takes a download up again must not put together what does not belong together."""
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    held = await (await served.executor()).acquire()
    assert held is not None
    link, etag = held["input"]["link"], held["input"]["etag"]
    assert (await served.client.get(link, headers={"If-Match": etag, "Range": "bytes=3-"})).status_code == 206
    refused = await served.client.get(link, headers={"If-Match": '"another"', "Range": "bytes=3-"})
    assert (refused.status_code, refused.content, refused.headers["ETag"]) == (412, b"", etag)
