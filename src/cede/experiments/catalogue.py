"""All figures by name: an overview, those of the paper in its order, the guarantee, ways of planning, fleets, and our own.

Installed packages register further ones as entry points of the group `cede.figures`.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cede._base import check, plugins
from cede.experiments.figure import Figure
from cede.experiments.figures import (
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


GROUP = "cede.figures"  # of entry points, by which installed packages register figures


def figure_names() -> list[str]:
    """Return the names of all figures, cede's own first. Of other packages nothing is imported for that."""
    return [*FIGURES, *(name for name in plugins.registered(GROUP) if name not in FIGURES)]


def chosen(names: Sequence[str]) -> list[Figure]:
    """Return the figures with these names, each once; ["all"] means all of cede's own. A name that is none is an error."""
    if list(names) == ["all"]:
        return list(FIGURES.values())
    return [figure_named(name) for name in dict.fromkeys(names)]


def figure_named(name: str) -> Figure:
    """Return a figure by its name: one of cede's own, or one that an installed package registers."""
    if name in FIGURES:
        return FIGURES[name]
    found = plugins.load("figure", GROUP, name)
    if found is None:
        every = ", ".join(check.printable(one) for one in figure_names())
        check.fail("figure", "name", check.show(name), f"all or one of {every}")
    figure = check.instance("figure", f"what is registered as {check.show(name)}", found, Figure)
    if figure.name != name:
        check.fail("figure", f"the name of what is registered as {check.show(name)}", check.show(figure.name), "the same")
    return figure


def figures_in(out: Path) -> dict[str, Figure]:
    """Return the figures whose table and picture are in a directory, by name. What cannot be loaded is left out."""
    result: dict[str, Figure] = {}
    for name in figure_names():
        if all((out / f"{name}{ending}").exists() for ending in (".csv", ".png")):
            with suppress(ValueError):
                result[name] = figure_named(name)
    return result
