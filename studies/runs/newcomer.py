"""Run a team that is new to a fleet: with what the fleet knows of the environment, and without."""

from collections.abc import Mapping

from cede import Fleet, Learner, TwoLayerMDP, simulate
from studies.arrays import Floats
from studies.figure import Outcome, Row
from studies.runs.curves import curve_rows, learner_settings


def with_and_without_fleet(
    fleet: Fleet, mdp: TwoLayerMDP, alone: Learner, known: Mapping[str, Floats], episodes: int, seed: int, about: Row
) -> Outcome:
    """Run two newcomers to the same problem and return the regret "curve" of both; the column "newcomer" says which one it is.

    One joins the fleet, takes what the fleet knows of the environment, and leaves again at once. The other is the learner `alone`,
    which knows nothing. known: policies of agents that the first one is told; about: columns that all rows get.
    """
    joined = fleet.remove(fleet.welcome(mdp.task, known_agents=known, seed=seed))
    curve = []
    for name, learner in (("with the fleet's knowledge", joined), ("alone", alone)):
        regret = simulate(mdp, learner, episodes, seed=seed, progress=False).regret
        curve += curve_rows(regret, {**about, "newcomer": name, "learner": "UCRL2-MC", "seed": seed, **learner_settings(learner)})
    return {"curve": curve}
