"""Writes the golden databases of the service's schema: `python tests/golden/service.py SCHEMA`, once, when it is released."""

import sys
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import cede  # noqa: E402
from cede.serve.http.setup import team_from  # noqa: E402
from cede.serve.planner.plans import Planner  # noqa: E402
from cede.serve.store.database import Database  # noqa: E402
from cede.serve.store.log import take_in  # noqa: E402
from cede.serve.store.store import Store  # noqa: E402
from traffic import episodes, put, report, river, rows, without_horizon  # noqa: E402


def tell(store, team, mdp, n):
    """Report n complete episodes of a team."""
    for number, episode in enumerate(episodes(mdp, n, team.id)):
        one = report(rows(team, number, episode), [(team.id, number, len(episode.actions))])
        store.database.write(lambda c, one=one: take_in(c, store.team, [one]))


def write(path):
    """Two teams, four and three complete episodes, one that is not, and a plan for each."""
    database = Database(f"sqlite:///{path}")
    store, mdp = Store(database), river(horizon=5)
    teams = put(store, cede.recommended(mdp.task), {"east": 1, "west": 2})
    for team, n in zip(teams, (4, 3), strict=True):
        tell(store, team, mdp, n)
    first = rows(teams[0], 9, episodes(mdp, 1, 9)[0])[1:3]
    database.write(lambda c: take_in(c, store.team, [report(first)]))
    while Planner(store).once():
        pass
    database.close()


def write_mixed(path):
    """Costs that are learned, a team with agents of its own, a team without a horizon, and a plan for each team."""
    database = Database(f"sqlite:///{path}")
    store, mdp, desk = Store(database), river(horizon=5), cede.worlds.support_desk()
    (east,) = put(store, cede.recommended(mdp.task), {"east": 1})
    own = team_from("golden", store.environment("river").served, {"agents": ["p=0.3", "another"], "switch_cost": 0.2})
    database.write(lambda c: store.put_team(c, "own", "river", own, 0, 0))
    learning = replace(desk.task.with_unknown_costs((0.0, 0.3)), enter_cost_range=(0, 5))
    (clerk,) = put(store, cede.recommended(learning), {"clerk": 2}, "desk")
    (endless,) = put(store, cede.recommended(without_horizon(mdp, None)), {"endless": 3}, "stream")
    for team, world in ((east, mdp), (store.team("own"), mdp), (clerk, desk), (endless, mdp)):
        tell(store, team, world, 3)
    while Planner(store).once():
        pass
    database.close()


if __name__ == "__main__":
    write(HERE / f"service-schema-{int(sys.argv[1])}.db")
    write_mixed(HERE / f"service-mixed-schema-{int(sys.argv[1])}.db")
