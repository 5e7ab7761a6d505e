"""The samples that heartbeats bring to the charts."""

from __future__ import annotations

from tests.integration.executor.deployment import Rig, eventually


async def samples(deployed: Rig) -> list[dict[str, float]]:
    """All that were stored, in order."""
    async with deployed.deployment.database.connection() as connection:
        rows = await connection.fetch("SELECT sample FROM minion_heartbeat ORDER BY at")
    return [row["sample"] for row in rows]


async def test_heartbeats_bring_rows_memory_and_load(deployed: Rig) -> None:
    """Each change of what the executor does is told with a heartbeat; together they count all rows."""
    async with deployed.executor():
        task = await deployed.submit_texts([f"slow {n}" for n in range(60)], subtask_bytes=400)
        assert (await deployed.ended(task))["state"] == "completed"

        async def seen() -> bool:
            found = await samples(deployed)
            return (
                any(each["rows_per_second"] > 0 for each in found)
                and any(each["subtasks_held"] > 0 for each in found)
                and any(each.get("engine_memory_mb", 0) > 1 for each in found)
                and found[-1]["subtasks_held"] == 0
            )

        await eventually(seen)
    for each in await samples(deployed):
        assert {"rows_per_second", "subtasks_held", "memory_free_mb", "load_1m"} <= set(each)
        assert each["memory_free_mb"] > 1
        assert all(number >= 0 for number in each.values())
