"""Lets one process of the tests at a time have a cluster of Ray: two that start at once take each other's token."""

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait for one's turn, and keep it."""
    with (Path(tempfile.gettempdir()) / "cede-tests-ray.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
