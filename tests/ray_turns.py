"""Lets one process of the tests at a time have a cluster of Ray: two that start at once take each other's token."""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait for one's turn, and keep it."""
    with (Path(tempfile.gettempdir()) / "cede-tests-ray.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def restore(before: Mapping[str, str]) -> None:
    """Set the environment back to what it was, but for Ray's token: a process has one for all its clusters."""
    token = {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")}
    os.environ.clear()
    os.environ.update({**before, **token})
