"""Ways in which UCRL2-MC can plan less often or less completely, and a run that measures the regret and the work of planning."""

from collections.abc import Callable
from functools import partial
from typing import Any

from cede import Learner, TwoLayerMDP, simulate
from cede.planning.passes import work_done
from studies.figure import Outcome, Row, report_work
from studies.runs.curves import curve_rows, learner_settings

# Arguments of `ucrl2_mc`, by the name of the way.
WAYS: dict[str, dict[str, Any]] = {
    "every episode": {},
    "every 10 episodes": {"replan": 10},
    "doubling": {"replan": "doubling"},
    "greedy": {"planning": "greedy"},
}


def regret_and_work(
    mdp: TwoLayerMDP, make: Callable[[], Learner], episodes: int, about: Row, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """Run a learner twice: once for its exact regret, and once without evaluating its policies, to count the work of planning.

    make: makes the learner; about: columns that all rows get; progress: told of 2 * episodes episodes in all. Returns the regret
    "curve", and one row "work" with the number of outcomes that planning touched per episode.
    """
    learner = make()
    regret = simulate(mdp, learner, episodes, seed=seed, progress=partial(report_work, progress, 1, 0)).regret
    before = work_done()
    simulate(mdp, make(), episodes, seed=seed, evaluate_every=episodes, progress=partial(report_work, progress, 1, episodes))
    work = work_done() - before
    about = {"learner": "UCRL2-MC", **about, **learner_settings(learner)}
    touched = {"outcomes_per_episode": work.outcomes / episodes}
    return {"curve": curve_rows(regret, about), "work": [{**about, "episodes": episodes, **touched}]}
