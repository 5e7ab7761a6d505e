"""What the system costs a completion task: output tokens a second through all of it, over those of llama.cpp alone.

System: `minions server` on PostgreSQL and files, one `minions executor` with the llama_cpp engine and a 135-million
parameter chat model. Timed by the database's clock from the acquirement of the first subtask to the last commit.

Bare: one process that drives the same llama.cpp (xllamacpp) with the same prompts, window and max_tokens from a pool
of threads, with the parallelism that was the best of 4, 8 and 16 on a part of the prompts in this run; timed around
the calls.

Neither side keeps the state of prompts that it has read: in a batch they do not come back, in turns they would.

Left out on both sides: loading the model, and a warm-up. Left out of the system's time: uploading the input, splitting
it before the first subtask is there, and the manifest.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deployment import databases, executor, report, say, server, workplace
from minions.local.docstrings import collect
from versus import answer_jobs, bare, chat_model, compare, system_turn

_PROMPT = "Say what this Python function is for: {text}"
_PROMPTS = 96
_MAX_TOKENS = 48
_WINDOW_TOKENS = 1024
_MOST_CHARACTERS = 400
_PARALLEL = (4, 8, 16)


def prompts() -> list[dict[str, str]]:
    """Short docstrings, from all over the standard library."""
    rows = [row for row in collect() if 20 <= len(row["text"]) <= _MOST_CHARACTERS]
    return rows[:: len(rows) // _PROMPTS][:_PROMPTS]


def complete_alone() -> None:
    """The bare side. A job without `parallel` uses the last one that was given."""
    import psutil

    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types
    loaded: dict[int, Any] = {}
    rows = prompts()

    def load(parallel: int) -> Any:
        params: Any = xllamacpp.CommonParams()
        params.model.path = str(chat_model())
        params.n_parallel = parallel
        params.n_ctx = _WINDOW_TOKENS * parallel
        params.warmup = False
        params.cache_ram_mib = 0  # a batch has each prompt once: turns that repeat them must not find them read
        params.verbosity = 1
        threads = psutil.cpu_count(logical=False) or os.cpu_count() or 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        return xllamacpp.Server(params)

    def work(job: dict[str, Any]) -> dict[str, Any]:
        parallel = job["parallel"]
        if parallel not in loaded:
            loaded.clear()
            loaded[parallel] = load(parallel)
        engine = loaded[parallel]

        def one(row: dict[str, str]) -> int:
            messages = [{"role": "user", "content": _PROMPT.format(text=row["text"])}]
            answer = engine.handle_chat_completions(
                {"messages": messages, "max_tokens": _MAX_TOKENS, "temperature": 0.0}
            )
            return answer["usage"]["completion_tokens"]

        chosen = rows[: job["rows"]]
        one(chosen[0])
        started = time.perf_counter()
        with ThreadPoolExecutor(parallel) as pool:
            tokens = sum(pool.map(one, chosen))
        return {"tokens": tokens, "seconds": time.perf_counter() - started}

    answer_jobs(work)


def measure(place: Path, *, quick: bool) -> dict[str, Any]:
    number, turns = (16, 1) if quick else (_PROMPTS, 3)
    rows = prompts()[:number]
    parameters = {
        "kind": "complete",
        "prompt": _PROMPT,
        "max_tokens": _MAX_TOKENS,
        "context_tokens": _WINDOW_TOKENS,
        "temperature": 0,
    }
    with ExitStack() as stack:
        url = stack.enter_context(databases(place)).create()
        running = stack.enter_context(server(url, place / "server"))
        stack.enter_context(executor(running, "executor", "--device", "cpu"))
        alone = stack.enter_context(bare(__file__))

        def bare_rate(parallel: int, rows: int) -> float:
            done = alone.ask(rows=rows, parallel=parallel)
            return done["tokens"] / done["seconds"]

        tried = {parallel: bare_rate(parallel, max(8, number // 3)) for parallel in _PARALLEL}
        best = max(tried, key=lambda parallel: tried[parallel])
        say("alone: " + ", ".join(f"{parallel} at once {rate:.1f}" for parallel, rate in tried.items()) + " tokens/s")
        bare_rate(best, 8)
        model, upload = str(chat_model()), running.upload("prompts.jsonl", rows)
        system_turn(running, url, model, parameters, running.upload("warm.jsonl", rows[:8]))

        def system_rate() -> float:
            turn = system_turn(running, url, model, parameters, upload)
            return turn.output_tokens / turn.seconds

        found = compare(turns, lambda: bare_rate(best, number), system_rate, "tokens")
        return found | {"bare_parallel": best, "prompts": len(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one turn with few prompts")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        complete_alone()
        return
    with workplace() as place:
        report(measure(place, quick=asked.quick))


if __name__ == "__main__":
    main()
