"""What policies would cost, by all that was counted until now: `cede.estimate`, kept as long as nothing new is counted.

An estimate takes from a tenth of a second to many seconds. So they are worked out one after the other, in a thread of their own:
those who wait for one keep nobody waiting who asks for anything else.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from cede._base import check
from cede.insight.estimate import estimate
from cede.learning.learner import Learner
from cede.problem.task import Task
from cede.serve.reports import Team
from cede.serve.writer import Busy

KEPT = 1000  # estimates
MOST_WAITING = 100
MOST_DRAWS = 1000
LONGEST_INDEX = 4  # digits

CountsKey = tuple[int, int, int, int]  # of a team: its number, episodes that it and its environment have counted, and erasures
Key = tuple[CountsKey, bytes]


def named_agent(task: Task, given: str) -> str | int:
    """Return a policy that the query of an address names: a name as it is, digits as an index, unless an agent is called so."""
    is_index = given.isascii() and given.isdecimal() and len(given) <= LONGEST_INDEX
    return int(given) if is_index and given not in task.agents else given


def check_no_truth(place: str, given: Any) -> None:
    """Check that a policy in lists has no truth value, which would count as an index."""
    waiting = [given]
    while waiting:
        one = waiting.pop()
        if isinstance(one, bool):
            check.fail("estimate", f"an entry of {place}", check.show(one), "the index of an agent")
        if isinstance(one, list):
            waiting += one


class Estimates:
    """Works out estimates, and keeps them. It is safe in several threads.

    learner_of: returns the learner that has counted what there is now of a team, and what that is known by.
    """

    def __init__(self, learner_of: Callable[[Team], tuple[CountsKey, Learner]]) -> None:
        self._learner_of, self._lock = learner_of, threading.Lock()
        self._kept: OrderedDict[Key, dict[str, Any]] = OrderedDict()
        self._waiting = 0
        self._pool = ThreadPoolExecutor(1, "cede-estimator")

    def find(self, team: Team, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return an estimate that is kept; None if there is none. asked: arguments of `cede.estimate`, as JSON holds them."""
        return self._find((self._learner_of(team)[0], digest(asked)))

    def ask(self, team: Team, asked: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Work out an estimate. The future holds its fields, and of how many episodes of the team it is."""
        check.integer("estimate", "draws", asked.get("draws", 2), 2, MOST_DRAWS)
        with self._lock:
            if self._waiting >= MOST_WAITING:
                raise Busy(f"{self._waiting} estimates wait to be worked out")
            self._waiting += 1
        try:
            future = self._pool.submit(self._work_out, team, asked)
        except RuntimeError:  # it was closed
            self._done(None)
            raise
        future.add_done_callback(self._done)
        return future

    def clear(self) -> None:
        """Forget all estimates, as when steps were erased."""
        with self._lock:
            self._kept.clear()

    def close(self) -> None:
        """Stop after the estimate that is being worked out."""
        self._pool.shutdown(cancel_futures=True)

    def _find(self, key: Key) -> dict[str, Any] | None:
        """Return an estimate that is kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _done(self, _: object) -> None:
        """Take note that one waits no longer."""
        with self._lock:
            self._waiting -= 1

    def _work_out(self, team: Team, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return an estimate: one that is kept, or a new one, which is kept then."""
        counts, learner = self._learner_of(team)
        key = (counts, digest(asked))
        found = self._find(key)
        if found is None:
            found = {"episodes": learner.episode - 1, **asdict(estimate(learner, **asked))}
            with self._lock:
                self._kept[key] = found
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return found


def digest(asked: Mapping[str, Any]) -> bytes:
    """Return what arguments are known by; they may be long."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()
