"""One who acts alone, as a switching problem in which switching is acting."""

import numpy as np

from cede._base import check
from cede.problem.model import Agent, Environment, Team, TwoLayerMDP


def solo(environment: Environment, horizon: int | None, *, discount: float | None = None) -> TwoLayerMDP:
    """Return an environment as a problem for one who acts alone; `planning/planner.py: best_policy` solves it.

    There is one agent for each action, which always takes that action, and hand-overs are free. The best switching policy is then
    the best policy of a single agent, and a learner of switching policies one of single agents.
    """
    check.instance("solo", "environment", environment, Environment)
    n, a = environment.n_states, environment.n_actions
    names = environment.action_names or [str(i) for i in range(a)]
    return TwoLayerMDP(
        environment,
        Team([Agent(name, np.tile(np.eye(a)[i], (n, 1))) for i, name in enumerate(names)]),
        horizon,
        discount=discount,
    )
