"""Estimates of costs of policies, from the current counts: `cede.estimate`, cached until new episodes are counted.

An estimate takes from a tenth of a second to many seconds. So they are computed one by one in a thread of their own, and do not
block other requests.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cede._base import check
from cede.insight.estimating import estimate
from cede.serve.served import ServedTeam
from cede.serve.store.database import Busy

if TYPE_CHECKING:
    from cede.learners.learner import Learner
    from cede.problem.task import Task

CACHED = 1000  # estimates
MOST_WAITING = 100
MOST_DRAWS = 1000
LONGEST_INDEX = 4  # digits

CountsKey = tuple[int, int, int, int]  # number of a team, counted episodes of team and environment, erasures
Value = TypeVar("Value")


class RecentlyUsed(Generic[Value]):
    """A cache of some values by key; the least recently used one is dropped first. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._values: OrderedDict[Any, Value] = OrderedDict()

    def get(self, key: Any) -> Value | None:
        """Return a value; None if it is not cached."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Any, value: Value) -> None:
        """Cache a value."""
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._most:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()


def named_agent(task: "Task", given: str) -> str | int:
    """Return the agent that a query parameter names: a name, or digits as an index unless an agent has that name."""
    is_index = given.isascii() and given.isdecimal() and len(given) <= LONGEST_INDEX
    return int(given) if is_index and given not in task.agents else given


def check_no_truth(place: str, given: Any) -> None:
    """Check that a policy in lists has no boolean, which would pass as an index."""
    waiting = [given]
    while waiting:
        one = waiting.pop()
        if isinstance(one, bool):
            check.fail("estimate", f"an entry of {place}", check.show(one), "the index of an agent")
        if isinstance(one, list):
            waiting += one


class Estimates:
    """Computes and caches estimates. Thread-safe. learner_of: returns the learner of a team's current counts, and their key."""

    def __init__(self, learner_of: "Callable[[ServedTeam], tuple[CountsKey, Learner]]") -> None:
        self._learner_of, self.cache = learner_of, RecentlyUsed[dict[str, Any]](CACHED)
        self._room = threading.Semaphore(MOST_WAITING)
        self._pool = ThreadPoolExecutor(1, "cede-estimator")

    def find(self, team: ServedTeam, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a cached estimate; None if there is none. asked: arguments of `cede.estimate`, from JSON."""
        return self.cache.get((self._learner_of(team)[0], digest(asked)))

    def ask(self, team: ServedTeam, asked: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Compute an estimate. The future holds its fields, and the number of the team's episodes."""
        check.integer("estimate", "draws", asked.get("draws", 2), 2, MOST_DRAWS)
        if not self._room.acquire(blocking=False):
            raise Busy(f"{MOST_WAITING} estimates wait to be computed")
        try:
            future = self._pool.submit(self._compute, team, asked)
        except RuntimeError:  # closed
            self._room.release()
            raise
        future.add_done_callback(lambda _: self._room.release())
        return future

    def close(self) -> None:
        """Stop after the estimate that is being computed."""
        self._pool.shutdown(cancel_futures=True)

    def _compute(self, team: ServedTeam, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return an estimate from the cache, or compute and cache it."""
        counts, learner = self._learner_of(team)
        key = (counts, digest(asked))
        fields = self.cache.get(key)
        if fields is None:
            fields = {"episodes": learner.episode - 1, **asdict(estimate(learner, **asked))}
            self.cache.put(key, fields)
        return fields


def digest(asked: Mapping[str, Any]) -> bytes:
    """Return a short key of arguments, which may be long."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()
