"""Run learners that forget, or do not, with a human whose driving changes halfway through the run."""

from collections.abc import Callable
from functools import partial

import numpy as np

from cede import Agent, HalfLife, Team, TwoLayerMDP, Window, posterior_sampling
from cede.fleet.simulate import generator, play
from cede.worlds import lane_driving
from cede.worlds.drivers import human_policy
from studies.figure import Outcome, Row, report_work
from studies.runs.curves import curve_rows, learner_settings
from studies.runs.promises import known_agents

FORGETTING = {"never forgets": None, "half-life of 200 episodes": HalfLife(200), "window of 400 episodes": Window(400)}


def human_changes(forgetting: str, sigmas: list[float], episodes: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Run posterior sampling in lane driving and return its regret "curve".

    forgetting: a name in FORGETTING; sigmas: the human's noise in the first and in the second half of the episodes. The learner is
    not told of the change. The regret is to the best policy for the human as they drive at the time.
    """
    before = lane_driving(sigma=sigmas[0])
    human = Agent("human", human_policy(sigmas[1]))
    after = TwoLayerMDP(before.environment, Team([before.team.agents[0], human]), before.horizon, before.start_agent)
    known = known_agents("lane driving", before)
    learner = posterior_sampling(
        before.task, structure=before.structure, known_agents=known, forget=FORGETTING[forgetting], seed=seed
    )
    rng, regret = generator("human_changes", seed), []
    for mdp, done in ((before, 0), (after, episodes // 2)):
        n = episodes // 2 if mdp is before else episodes - episodes // 2
        record = play(mdp, learner, n, rng, partial(report_work, progress, 1, done))
        regret.append(record.ledger.expected_cost[0] - record.optimum[0])
    about: Row = {"learner": "posterior sampling, structured", "forgetting": forgetting, "before": sigmas[0], "after": sigmas[1]}
    return {"curve": curve_rows(np.cumsum(np.concatenate(regret)), {**about, "seed": seed, **learner_settings(learner)})}
