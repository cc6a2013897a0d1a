"""Ways of planning less, and how they are measured in either world."""

from collections.abc import Callable
from functools import partial
from typing import Any

from cede.experiments.core import Outcome, Row, report_work
from cede.experiments.curves import curve_rows, learner_settings
from cede.fleet.simulate import simulate
from cede.learning.learner import Learner
from cede.planning.planner import work_done
from cede.problem.model import TwoLayerMDP

WAYS: dict[str, dict[str, Any]] = {
    "every episode": {},
    "every 10 episodes": {"replan": 10},
    "doubling": {"replan": "doubling"},
    "greedy": {"planning": "greedy"},
}


def measured(
    mdp: TwoLayerMDP, make: Callable[[], Learner], episodes: int, about: Row, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """The exact regret of a run; and the same run again without evaluation, to count what planning alone touches.

    progress is told of twice as many episodes.
    """
    learner = make()
    regret = simulate(mdp, learner, episodes, seed=seed, progress=partial(report_work, progress, 1, 0)).regret
    before = work_done()
    simulate(mdp, make(), episodes, seed=seed, evaluate_every=episodes, progress=partial(report_work, progress, 1, episodes))
    work = work_done() - before
    about = {"learner": "UCRL2-MC", **about, **learner_settings(learner)}
    touched = {"outcomes_per_episode": work.outcomes / episodes}
    return {"curve": curve_rows(regret, about), "work": [{**about, "episodes": episodes, **touched}]}
