"""The pure work of a planner: from task, settings, counts and seed to a policy; here, or in a worker, to which it goes as arrays.

A worker needs no database: this file imports nothing that needs the extra `serve`.
"""

import io
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cede import __version__
from cede._base.archive import load_arrays, write_arrays
from cede._base.arrays import Ints, Policy
from cede.learning.endless import new_learner
from cede.learning.learner import Learner
from cede.learning.state import Arrays
from cede.serve.counting import Cells
from cede.serve.served import Served, unpack

KIND, SCHEMA = "plan to make", 1  # of messages


@dataclass(frozen=True, eq=False)
class PlanWork:
    """All that a plan follows from."""

    served: Served
    seed: int
    agents: Cells  # (row, column, n)
    environment: Cells  # (layer, row, column, n)
    episodes: int  # of the team
    environment_episodes: int

    def learner(self, starts: Ints | None = None) -> Learner:
        """Return a learner that has counted this, and starts of episodes, (S,), from which no plan follows."""
        counts = self.served.counter.counts(self.agents, self.environment, self.episodes, self.environment_episodes, starts)
        return new_learner(self.served.task, self.served.told, seed=self.seed, counts=counts, checked=True)

    def policy(self) -> Policy:
        """Make the plan, and return its policy, (L, S, D); (S, D) without a horizon."""
        return self.learner().plan.policy


class PlanServer:
    """The part that runs in a worker: plans."""

    def version(self) -> str:
        """Return the version of cede that the worker has."""
        return __version__

    def do(self, message: bytes) -> Policy:
        """Make the plan that a message of `packed` asks for, and return its policy."""
        header, arrays = load_arrays(message, KIND, SCHEMA)
        if header["version"] != __version__:
            raise RuntimeError(f"the worker has cede {__version__}, must be {header['version']}, as here")
        cells = (arrays["agents"].tolist(), arrays["environment"].tolist())
        numbers = (header["episodes"], header["environment_episodes"])
        return PlanWork(unpacked(arrays["told"].tobytes()), header["seed"], *cells, *numbers).policy()


@lru_cache(maxsize=64)
def unpacked(told: bytes) -> Served:
    """Return task and settings; of environments that were asked for lately they are kept, with what was made ready to count."""
    return unpack(told)


def packed(work: PlanWork, environment: Ints) -> bytes:
    """Return work as a message. environment: (n, 4) its cells of the environment, which many teams have in common."""
    numbers = {"seed": work.seed, "episodes": work.episodes, "environment_episodes": work.environment_episodes}
    agents = np.array(work.agents, dtype=np.int64).reshape(-1, 3)
    arrays: Arrays = {"told": np.frombuffer(work.served.packed, dtype=np.uint8), "agents": agents, "environment": environment}
    file = io.BytesIO()
    write_arrays(file, KIND, SCHEMA, {"version": __version__, **numbers}, arrays)
    return file.getvalue()
