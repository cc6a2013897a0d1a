"""Writes the golden database of the service's schema: `python tests/golden/service.py SCHEMA`, once, when it is released."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import cede  # noqa: E402
from cede.serve.planner.planner import Planner  # noqa: E402
from cede.serve.store.database import Database  # noqa: E402
from cede.serve.store.log import take_in  # noqa: E402
from cede.serve.store.store import Store  # noqa: E402
from traffic import episodes, put, report, river, rows  # noqa: E402


def write(path):
    """Two teams, four and three complete episodes, one that is not, and a plan for each."""
    database = Database(f"sqlite:///{path}")
    store, mdp = Store(database), river(horizon=5)
    teams = put(store, cede.recommended(mdp.task), {"east": 1, "west": 2})
    for team, n in zip(teams, (4, 3), strict=True):
        for number, episode in enumerate(episodes(mdp, n, team.id)):
            one = report(rows(team, number, episode), [(team.id, number, len(episode.actions))])
            database.write(lambda c, one=one: take_in(c, store.team_of, [one]))
    first = rows(teams[0], 9, episodes(mdp, 1, 9)[0])[1:3]
    database.write(lambda c: take_in(c, store.team_of, [report(first)]))
    while Planner(store).once():
        pass
    database.close()


if __name__ == "__main__":
    write(HERE / f"service-schema-{int(sys.argv[1])}.db")
