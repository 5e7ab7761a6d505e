"""Writes src/minions/store/schema.sql from the migrations, with a PostgreSQL of its own: `make schema`."""

from __future__ import annotations

import asyncio
import tempfile
from importlib.resources import files
from pathlib import Path

from minions.local.postgres import EmbeddedPostgres
from minions.store.dump_schema import dump_schema
from minions.store.migrations import migrate


def main() -> None:
    """Migrate an empty database and dump what it has become."""
    place = Path(str(files("minions.store"))) / "schema.sql"
    with tempfile.TemporaryDirectory(prefix="minions-schema-") as folder:
        postgres = EmbeddedPostgres(Path(folder), settings={"fsync": "off"})
        url = postgres.start()
        try:
            asyncio.run(migrate(url, "development"))
            place.write_text(asyncio.run(dump_schema(url)), encoding="utf-8")
        finally:
            postgres.stop()


if __name__ == "__main__":
    main()
