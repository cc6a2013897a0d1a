"""Figure `machines`: how much of the result in lane driving depends on which machine was trained, and how much on luck."""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from cede import expected_cost, solve
from cede.worlds import lane_driving
from cede.worlds.drivers import solo
from cede.worlds.lane_driving import HUMAN, MACHINE
from studies import style
from studies.drawing import finish, legend_above
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.figures.drivers_cost import TRAFFIC
from studies.runs import lane
from studies.tables import final_rows, select, values

EPISODES, QUICK_EPISODES = 3000, 120  # about as long as the runs that the authors logged
REPEATS, QUICK_REPEATS = 5, 1
MACHINES, QUICK_MACHINES = 5, 2  # trained with the seeds 0, 1, ...
RADII = "schedule"
LEARNERS = ("UCRL2-MC", "UCRL2 (same-form)")
OTHER_MACHINE, OTHER_SEED = "machines differ", "seeds differ"


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    machines = range(QUICK_MACHINES if options.quick else MACHINES)
    result = [
        lane.team_part(name, RADII, costs, episodes, seed)
        for costs, name, seed in product(lane.COSTS, LEARNERS, options.seeds(REPEATS, QUICK_REPEATS))
    ]
    result += [
        lane.team_part(name, RADII, costs, episodes, options.seed, machine)
        for costs, name, machine in product(lane.COSTS, LEARNERS, machines)
    ]
    return [*result, *(Part("figures.machines:quality", {"machine": machine}, 1, f"machine {machine}") for machine in machines)]


def quality(machine: int, progress: Callable[[int], None]) -> Outcome:
    """Compute what a machine costs, exactly: relative to the best driver without cars, and to the human with cars."""
    policy, found = lane.trained(machine), {}
    for traffic, mix in TRAFFIC.items():
        mdp = lane_driving(sigma=lane.SIGMA, traffic=mix, machine=policy)
        steps, states = mdp.horizon, mdp.environment.n_states
        cost = {agent: expected_cost(mdp, np.full((steps, states, 2), agent)) for agent in (MACHINE, HUMAN)}
        best = solo(mix)
        found[traffic] = (cost[MACHINE], cost[HUMAN], expected_cost(best, solve(best).policy))
    empty, busy = (found[traffic] for traffic in TRAFFIC)
    progress(1)
    return {"quality": [{"machine": machine, "to_best_without_cars": empty[0] / empty[2], "to_human_with_cars": busy[0] / busy[1]}]}


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    known = {row["machine"]: row for _, outcome in outcomes for row in outcome.get("quality", [])}
    rows = []
    for row in final_rows([row for _, outcome in outcomes for row in outcome.get("curve", [])]):
        way = OTHER_MACHINE if "machine" in row else OTHER_SEED
        rows.append({**row, "way": way, **(known[row["machine"]] if "machine" in row else {})})
    return rows


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(lane.COSTS), width=style.WIDTH, height=2.6, sharey=True)
    for axes, (control, switch) in zip(panels, lane.COSTS, strict=True):
        here = select(rows, control_cost=control, switch_cost=switch)
        for i, (name, way) in enumerate(product(values(rows, "learner"), (OTHER_SEED, OTHER_MACHINE))):
            found = [row["regret"] for row in select(here, learner=name, way=way)]
            marker, colour = ("o" if way == OTHER_SEED else "D"), style.COLOURS[name]
            face = colour if way == OTHER_SEED else "white"
            label = f"{style.label(name)}, {way}"
            axes.plot(found, [-i] * len(found), marker, color=colour, markerfacecolor=face, markersize=5, label=label, alpha=0.8)
            axes.plot([np.mean(found)] * 2, [-i - 0.3, -i + 0.3], color=colour, linewidth=1.2)
        axes.set_title(style.costs(control, switch))
        axes.set_xlim(0, 1.06 * max(row["regret"] for row in here))
        axes.set_yticks([])
        axes.set_ylim(-3.6, 0.6)
        axes.set_xlabel("total regret after the last episode")
    legend_above(picture, panels[0], columns=2)
    note = (
        f"Lane driving, σ = {lane.SIGMA:g}, one team, the authors' schedule of radii; the machine is known to UCRL2-MC. Each mark "
    )
    note += "is one run, each line a mean. Regret is measured against the best policy with that machine."
    n = len([row for row in select(rows, way=OTHER_MACHINE, learner=LEARNERS[0]) if row["control_cost"] == lane.COSTS[0][0]])
    return finish(picture, rows, note, path, repeats=f"{len(values(select(rows, way=OTHER_SEED), 'seed'))} seeds and {n} machines")


FIGURE = Figure(
    "machines",
    "How much depends on the trained machine",
    "The machine's policy is trained by trial and error, so each training gives a different machine. Filled marks: one machine, "
    "different seeds. Open marks: different machines.",
    parts,
    table,
    draw,
)
