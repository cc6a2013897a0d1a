"""All figures by name: an overview, those of the paper in its order, the guarantee, ways of planning, fleets, and our own."""

from collections.abc import Sequence
from pathlib import Path

from studies.figure import Figure
from studies.figures import (
    action_size,
    action_why,
    automation,
    desk,
    drivers_cost,
    endless_river,
    freshness,
    growth,
    guarantee,
    human_control,
    hundred_teams,
    joins,
    lane_why,
    league,
    limits,
    machines,
    many_teams,
    never_worse,
    newcomer,
    overview,
    people_change,
    planning_ways,
    promises,
    riverswim_task,
    roads,
    sharing,
    sharing_why,
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
        machines,
        many_teams,
        lane_why,
        riverswim_task,
        team_count,
        hundred_teams,
        sharing,
        sharing_why,
        drivers_cost,
        human_control,
        action_size,
        action_why,
        team_size,
        guarantee,
        growth,
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
    """Return the figures with these names, each once; ["all"] means all figures. Raises ValueError if a name is unknown."""
    if list(names) == ["all"]:
        return list(FIGURES.values())
    for name in names:
        if name not in FIGURES:
            raise ValueError(f"figure: name is {name!r}, must be all or one of {', '.join(FIGURES)}")
    return [FIGURES[name] for name in dict.fromkeys(names)]


def figures_in(out: Path) -> dict[str, Figure]:
    """Return the figures whose table and picture are in a directory, by name."""
    return {name: figure for name, figure in FIGURES.items() if all((out / f"{name}{end}").exists() for end in (".csv", ".png"))}
