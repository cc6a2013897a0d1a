"""Parts side by side on the local cores, with one bar for all of them and the time left."""

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

from cede.experiments.core import Outcome, Part, load_outcome, save_outcome

POLL = 0.25  # seconds between two looks at what the workers have done

_done: Any = None  # in a worker: shared memory, episodes done of every part


def _start(done: Any) -> None:
    global _done  # noqa: PLW0603 (a worker's one piece of state, set once when it starts)
    _done = done
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Whoever asked for the work was killed: do not go on alone, and do not wait for more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(index: int, part: Part, path: Path) -> None:
    def progress(episodes: int) -> None:
        _done[index] = episodes

    save_outcome(path, part.run(progress))
    _done[index] = part.work


def run_parts(parts: Sequence[Part], directory: Path, jobs: int, say: Callable[[str], None]) -> dict[str, Outcome]:
    """The outcome of every part; those on disk already are not run again."""
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
            with ProcessPoolExecutor(min(jobs, len(todo)), context, _start, (done,)) as pool:
                running = [pool.submit(_work, i, part, paths[part.key]) for i, part in enumerate(longest_first)]
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
    """Show progress until all parts are finished or one fails."""
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
            if not terminal and time.monotonic() - last > 30:
                last, share = time.monotonic(), sum(done) / total
                left = f", about {(last - begin) * (1 / share - 1) / 60:.1f} min left" if share > 0 else ""
                finished = sum(future.done() for future in running)
                say(f"  {finished}/{len(parts)} parts, {share:.0%}{left}")
            time.sleep(POLL)
