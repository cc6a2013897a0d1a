"""Starting other processes, after a check that this one can."""

import multiprocessing
from multiprocessing import spawn
from multiprocessing.context import SpawnContext
from pathlib import Path

from cede._base import check


def spawn_context(owner: str) -> SpawnContext:
    """Check that this process can start others, and return the multiprocessing context "spawn": nothing is forked."""
    if multiprocessing.current_process().daemon:
        expected = "one that may have children: start it with daemon=False, or let threads do the work"
        check.fail(owner, "this process", "daemonic", expected)
    script = spawn.get_preparation_data("").get("init_main_from_path")  # a new process imports it
    if script is not None and not Path(script).is_file():
        expected = "a file that is there: a script from standard input cannot start processes, save it as a file"
        check.fail(owner, "the script", repr(Path(script).name), expected)
    return multiprocessing.get_context("spawn")
