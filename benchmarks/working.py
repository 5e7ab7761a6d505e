"""The work of pages.py: executors that do nothing, at a given rate of commits, until they are ended.

    python benchmarks/working.py URL TOKEN EXECUTORS COMMITS_PER_SECOND

Prints "ready" when the first of them have committed.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from loading import connect_executors


async def main(url: str, token: str, count: int, per_second: float) -> None:
    executors = await connect_executors(url, token, count)
    seconds: list[float] = []
    said = False
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        for executor in executors:
            await executor.cycle(seconds, 0)
            seconds.clear()
            if not said:
                print("ready", flush=True)
                said = True
            due += 1 / per_second
            await asyncio.sleep(due - loop.time())


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
