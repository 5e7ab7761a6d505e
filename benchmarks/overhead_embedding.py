"""What the system costs an embedding task: rows a second through all of it, over rows a second of the library alone.

System: `minions server` on PostgreSQL and files, one `minions executor`, real docstrings of the standard library as
JSONL, default parameters. Timed by the database's clock from the acquirement of the first subtask to the commit of the
last part, so reading, tokenizing, the pipe to the engine, parts, uploads, commits and the gaps between subtasks count.

Bare: one process, `SentenceTransformer.encode` with its defaults (32 texts a batch, sorted by length within a call) on
the same rows in the same order, 2,000 a call, timed around the calls.

Left out on both sides: loading the model, and a warm-up of 300 rows. Left out of the system's time: uploading the
input, splitting it before the first subtask is there, and the manifest. Both use as many threads as torch chooses.
"""

from __future__ import annotations

import argparse
import itertools
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deployment import databases, executor, report, say, server, workplace
from minions.local.docstrings import collect
from versus import answer_jobs, bare, compare, embedding_model, system_turn

_CALL_ROWS = 2_000


def encode_alone() -> None:
    """The bare side."""
    import torch
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(str(embedding_model()), device="cpu")
    texts = [row["text"] for row in collect()]

    def work(job: dict[str, Any]) -> dict[str, Any]:
        rows = texts[: job["rows"]]
        started = time.perf_counter()
        for at in range(0, len(rows), _CALL_ROWS):
            model.encode(rows[at : at + _CALL_ROWS], show_progress_bar=False)
        return {"seconds": time.perf_counter() - started, "threads": torch.get_num_threads()}

    answer_jobs(work)


def measure(place: Path, *, quick: bool) -> dict[str, Any]:
    number, turns = (400, 1) if quick else (2_500, 3)
    rows = list(itertools.islice(collect(), number))
    say(f"{len(rows)} rows, {sum(len(row['text']) for row in rows) // len(rows)} characters on average")
    model, parameters = str(embedding_model()), {"kind": "embed", "column": "text", "id": "name"}
    with ExitStack() as stack:
        url = stack.enter_context(databases(place)).create()
        running = stack.enter_context(server(url, place / "server"))
        stack.enter_context(executor(running, "executor", "--device", "cpu"))
        alone = stack.enter_context(bare(__file__))
        threads = alone.ask(rows=300)["threads"]
        say("warming up")
        upload = running.upload("docstrings.jsonl", rows)
        system_turn(running, url, model, parameters, running.upload("warm.jsonl", rows[:300]))

        def bare_rate() -> float:
            return len(rows) / alone.ask(rows=number)["seconds"]

        def system_rate() -> float:
            turn = system_turn(running, url, model, parameters, upload)
            if turn.rows != len(rows):
                raise RuntimeError(f"{turn.rows} of {len(rows)} rows came back")
            return turn.rows / turn.seconds

        return compare(turns, bare_rate, system_rate, "rows") | {"rows": len(rows), "threads": threads}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one turn with few rows")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        encode_alone()
        return
    with workplace() as place:
        report(measure(place, quick=asked.quick))


if __name__ == "__main__":
    main()
