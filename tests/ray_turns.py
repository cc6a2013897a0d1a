"""Clusters of Ray for tests: one process at a time has one, since two that start at once take each other's token."""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

TRIES = 3  # to start a cluster: Ray has limits of its own, which a busy machine may miss


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


@contextmanager
def local_cluster() -> Iterator[ModuleType]:
    """Start a cluster, as a program that uses Ray itself would have; with a token, where Ray has that."""
    pytest.importorskip("ray", reason='Ray is not installed: pip install "cede[ray]"')
    from cede.fleet import ray

    with one_at_a_time():
        before = dict(os.environ)
        for left in reversed(range(TRIES)):
            try:
                module, ours = ray.connect(None, 2)
                break
            except (RuntimeError, ConnectionError, TimeoutError) as error:
                if not left:
                    pytest.skip(f"Ray cannot start here: {error}")
        assert ours
        yield module
        module.shutdown()
        restore(before)
