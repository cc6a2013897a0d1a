"""Run parts side by side in worker processes, store each outcome in a file, and show progress with the time left."""

import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from studies.figure import Outcome, Part
from studies.files import write_whole

POLL = 0.25  # seconds between two looks at what the workers have done
TOOK = "took"  # the kind of row of an outcome that says how long it took
ENOUGH = 0.01  # of all work: before that much is done nobody can say how long the rest takes
SAY_EVERY = 30.0  # seconds between two lines of text, where there is no terminal to show a bar in

_done: Any = None  # in a worker: shared memory of all workers, the work done of each part; the worker writes its own parts


def _start_worker(done: Any) -> None:
    """Prepare a worker process. done: the shared memory into which it reports."""
    global _done  # noqa: PLW0603 (a worker's one piece of state, set once when it starts)
    _done = done
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Wait for the parent process to end, then end this one at once: nobody would read what it computes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_and_store(index: int, part: Part, path: Path) -> None:
    """Run a part in a worker and write its outcome to a file, with what it took: processor time, of this process and all its
    threads. index: its place in the shared memory of progress.
    """

    def progress(work: int) -> None:
        _done[index] = work

    begin = time.process_time()
    outcome = part.run(progress)
    save_outcome(path, {**outcome, TOOK: [{"seconds": round(time.process_time() - begin, 2)}]})
    _done[index] = part.work


def save_outcome(path: Path, outcome: Outcome) -> None:
    """Write the outcome of a part as JSON, whole or not at all."""
    write_whole(path, json.dumps(outcome))


def load_outcome(path: Path) -> Outcome | None:
    """Read the outcome of a part, None if there is no file or it was cut off."""
    try:
        outcome = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return outcome if isinstance(outcome, dict) else None


def run_parts(parts: Sequence[Part], directory: Path, jobs: int, say: Callable[[str], None]) -> dict[str, Outcome]:
    """Return the outcome of every part by its key. Outcomes that the directory holds already are read, the others are run.

    jobs: number of worker processes; say: called with lines of text. Raises what a part raises, and OSError if a worker dies;
    outcomes that were stored before stay.
    """
    paths = {part.key: directory / f"{part.key}.json" for part in parts}
    outcomes = {key: outcome for key, path in paths.items() if (outcome := load_outcome(path)) is not None}
    todo = [part for part in parts if part.key not in outcomes]
    if outcomes and todo:
        say(f"{len(outcomes)} of {len(parts)} parts are there already, {len(todo)} to run")
    if todo:
        longest_first = sorted(todo, key=lambda part: -part.work)
        context = multiprocessing.get_context("spawn")
        done = context.Array("q", len(todo), lock=False)
        try:
            with ProcessPoolExecutor(min(jobs, len(todo)), context, _start_worker, (done,)) as pool:
                running = [pool.submit(_run_and_store, i, part, paths[part.key]) for i, part in enumerate(longest_first)]
                try:
                    watch(longest_first, running, done, say)
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        except BrokenProcessPool as error:
            raise OSError("a worker process died; what was finished is kept, run the same command again") from error
    for part in todo:
        outcome = load_outcome(paths[part.key])
        if outcome is None:
            raise OSError(f"{paths[part.key]}: was not written")
        outcomes[part.key] = outcome
    return outcomes


def watch(parts: Sequence[Part], running: Sequence["Future[None]"], done: Any, say: Callable[[str], None]) -> None:
    """Show progress until all parts are finished; raise the error of the first part that fails.

    running: one future for each part; done: the work done of each part, written by the workers. In a terminal there is a bar for
    each running part and one for all; elsewhere a line of text now and then.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    total = sum(part.work for part in parts)
    begin, last = time.monotonic(), time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False))
    terminal = sys.stderr.isatty()
    with Progress(*columns, *times, console=Console(stderr=True), disable=not terminal, speed_estimate_period=120) as bar:
        everything = bar.add_task(f"all {len(parts)} parts", total=total)
        lines: dict[int, Any] = {}
        while True:
            for i, (part, future) in enumerate(zip(parts, running, strict=True)):
                if future.running() and not future.done() and done[i] > 0 and i not in lines:
                    lines[i] = bar.add_task(part.label, total=part.work)
                if i in lines:
                    bar.update(lines[i], completed=done[i], visible=not future.done())
                if future.done():
                    future.result()  # a failure ends everything here
            bar.update(everything, completed=sum(done))
            if all(future.done() for future in running):
                return
            if not terminal and time.monotonic() - last > SAY_EVERY:
                last, share = time.monotonic(), sum(done) / total
                finished = sum(future.done() for future in running)
                left = f", about {(last - begin) * (1 / share - 1) / 60:.1f} min left" if share > ENOUGH else ""
                say(f"  {finished}/{len(parts)} parts, {share:.0%}{left}")
            time.sleep(POLL)
