"""Figure `lane-why`: where the lead of UCRL2-MC over UCRL2 comes from in lane driving: layers, sharing, or knowing the machine?

In the figure `many-teams` UCRL2-MC has three advantages at once: it has a layer for the agents and one for the road, its teams
share the latter, and it is told the machine's policy. Here it lacks one of the last two, or both. UCRL2, and UCRL2-MC where it is
not told the machine, learn one table for the machine, though its steering varies with time.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

from cede import Fleet, Learner, TwoLayerMDP, simulate_fleet, ucrl2_mc
from cede.worlds.lane_driving import lane_driving_teams
from studies import style
from studies.drawing import draw_line, episode_axis, finish, from_zero, legend_over
from studies.figure import Figure, Options, Outcome, Part, Row, report_work
from studies.figures import many_teams
from studies.runs import lane
from studies.runs.curves import curve_rows, learner_settings
from studies.tables import all_rows, select, values

COSTS = lane.COSTS[0]
BOTH, ALONE, UNTOLD, NEITHER, SAME_FORM = (
    "UCRL2-MC",
    "UCRL2-MC, not shared",
    "UCRL2-MC, machine not known",
    "UCRL2-MC, neither",
    "UCRL2 (same-form)",
)
LOOKS = {  # colour and line of each
    BOTH: (style.RED, "-"),
    ALONE: (style.ORANGE, (0, (1, 1))),
    UNTOLD: (style.BLUE, (0, (4, 1.5))),
    NEITHER: (style.GREEN, (0, (5, 2))),
    SAME_FORM: (style.COLOURS[SAME_FORM], style.LINES[SAME_FORM]),
}


def parts(options: Options) -> list[Part]:
    episodes, teams = many_teams.size(options)
    result = []
    for name, seed in product(LOOKS, options.seeds(lane.REPEATS, lane.QUICK_REPEATS)):
        like = many_teams.part(name, many_teams.RADII, COSTS, teams, episodes, seed)
        result.append(like if name in lane.LEARNERS else replace(like, function="figures.lane_why:run"))
    return result


def make_learner(name: str, mdp: TwoLayerMDP, radii: str, episodes: int, seed: int) -> Learner:
    """Make UCRL2-MC that is told the machine's policy, unless its name says that it is not."""
    if name == ALONE:
        return lane.make_learner(BOTH, mdp, radii, episodes, seed)
    pooled = replace(mdp.task, varies_with=None)
    return ucrl2_mc(pooled, delta=lane.DELTA, scale=lane.scale_of(radii, episodes), seed=seed)


def run(
    learner: str, radii: str, costs: list[float], teams: int, episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """Run a fleet as `lane.fleet_run` does, with UCRL2-MC that lacks something; return the "curve" of its total regret.

    learner: ALONE, UNTOLD or NEITHER. Teams that do not share would exchange what they have seen after the last episode: never.
    """
    mdps = lane_driving_teams(teams, seed=seed, control_cost=costs[0], switch_cost=costs[1])
    learners = [make_learner(learner, mdp, radii, episodes, seed + 7919 * i) for i, mdp in enumerate(mdps)]
    exchange = 1 if learner == UNTOLD else episodes
    report = partial(report_work, progress, lane.effort(radii) * teams, 0)
    history = simulate_fleet(mdps, Fleet(learners), episodes, seed=seed, jobs=1, sync_every=exchange, progress=report)
    about: Row = {"learner": learner, "radii": radii, "control_cost": costs[0], "switch_cost": costs[1], "teams": teams}
    about |= {"sync_every": exchange, "seed": seed, **learner_settings(learners[0])}
    return {"curve": curve_rows(history.regret, about)}


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=4.8, height=3.0)
    ends = {name: draw_line(axes, select(rows, learner=name), *LOOKS[name], name) for name in values(rows, "learner")}
    episode_axis(axes, rows)
    from_zero(axes)
    axes.set_ylabel("total regret of all teams")
    style.label_ends(axes, [(end, f"{end:,.0f}", LOOKS[name][0]) for name, end in ends.items()])
    legend_over(axes)
    note = (
        f"Lane driving, {rows[0]['teams']} teams with σ uniform in (0, 4), {style.costs(*COSTS)}; the authors' schedule of radii "
        "for all learners. UCRL2-MC knows the machine, and its teams have one belief about the road, unless its name says "
        "otherwise (neither: both not). Numbers at the right: after the last episode."
    )
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "lane-why",
    "Where the lead of UCRL2-MC in lane driving comes from",
    "UCRL2-MC learns agents and road separately, its teams share the road, and it knows the machine. What is left of its lead "
    "over UCRL2 if it does not share, if it does not know the machine, or both?",
    parts,
    all_rows,
    draw,
)
