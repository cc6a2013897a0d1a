"""All figures by name: an overview, those of the paper in its order, the guarantee, ways of planning, fleets, and our own."""

from collections.abc import Sequence

from cede.experiments.figure import Figure
from cede.experiments.figures import (
    action_size,
    automation,
    desk,
    drivers_cost,
    endless_river,
    freshness,
    guarantee,
    human_control,
    hundred_teams,
    joins,
    league,
    limits,
    many_teams,
    never_worse,
    newcomer,
    overview,
    people_change,
    planning_ways,
    promises,
    riverswim_task,
    roads,
    single_team,
    structured,
    team_count,
    team_size,
    together,
    trajectories,
    unknown_costs,
)

FIGURES: dict[str, Figure] = {
    module.FIGURE.name: module.FIGURE
    for module in (
        together,
        desk,
        joins,
        overview,
        roads,
        trajectories,
        single_team,
        many_teams,
        riverswim_task,
        team_count,
        hundred_teams,
        drivers_cost,
        human_control,
        action_size,
        team_size,
        guarantee,
        planning_ways,
        newcomer,
        freshness,
        structured,
        promises,
        league,
        people_change,
        automation,
        limits,
        never_worse,
        unknown_costs,
        endless_river,
    )
}


def chosen(names: Sequence[str]) -> list[Figure]:
    """Return the figures with these names, each once; ["all"] means all of them. Raises ValueError for a name that is none."""
    if list(names) == ["all"]:
        return list(FIGURES.values())
    for name in names:
        if name not in FIGURES:
            raise ValueError(f"figure: name is {name!r}, must be all or one of {', '.join(FIGURES)}")
    return [FIGURES[name] for name in dict.fromkeys(names)]
