"""Run learners in the worlds of the league, and look now and then at the policy that one would deploy by then.

What is deployed is the plan of the means (`mean_plan`), which does not explore, as PPO and DQN are judged by what they would do
without exploring. What exploring costs is the regret, of all that was really done.
"""

import time
from collections.abc import Callable

import numpy as np

from cede import Learner, Scale, Task, expected_cost, posterior_sampling, recommended, ucrl2_mc
from cede.fleet.simulate import generator, play
from cede.insight import mean_plan
from studies.figure import Outcome, Row
from studies.runs.curves import learner_settings
from studies.runs.league_worlds import WORLDS

FIRST_LOOK, LOOKS = 100, 40

# All learners of the league by name: each is told the task, and nothing else.
LEARNERS: dict[str, Callable[[Task, int], Learner]] = {
    "recommended": lambda task, seed: recommended(task, seed=seed),
    "posterior sampling": lambda task, seed: posterior_sampling(task, seed=seed),
    "UCRL2-MC, scaled 0.1, 0.01": lambda task, seed: ucrl2_mc(task, scale=Scale(0.1, 0.01), seed=seed),
    "UCRL2-MC, KL": lambda task, seed: ucrl2_mc(task, belief="kl", seed=seed),
}


def one_run(world: str, learner: str, steps: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Run a learner for so many steps; return its looks as a "curve": after how many steps, what the policy to deploy costs, the
    regret so far, and the processor time that learning took, without the looks.
    """
    mdp = WORLDS[world]()
    player, rng = LEARNERS[learner](mdp.task, seed), generator("league", seed)
    about: Row = {"world": world, "learner": learner, "episodes": steps, "unit": "steps", "seed": seed, **learner_settings(player)}
    done, episodes, regret, spent, rows = 0, 0, 0.0, 0.0, []
    for look in np.unique(np.geomspace(min(FIRST_LOOK, steps), steps, LOOKS).astype(int)).tolist():
        while done < look:
            length = done / episodes if episodes else mdp.horizon or 1
            begun = time.process_time()
            record = play(mdp, player, max(1, int((look - done) / length)), rng)
            spent += time.process_time() - begun
            ledger, optimum = record.ledger, float(record.optimum[0])
            done += int(ledger.control[0].sum())
            episodes += len(ledger.cost[0])
            regret += float((ledger.expected_cost[0] - optimum).sum())
            progress(min(done, steps))
        cost = expected_cost(mdp, mean_plan(player))
        rows.append({**about, "steps": done, "cost": cost, "regret": regret, "seconds": spent, "optimum": optimum})
    return {"curve": rows}
