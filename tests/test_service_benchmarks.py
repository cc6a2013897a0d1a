"""Small versions of the benchmarks of the service, with processes as they are: what they count must hold; what they time is not
looked at here.
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def found():
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(HERE))
    yield
    patch.undo()


@pytest.fixture
def files(found):
    import service_hosts

    host = service_hosts.Files()
    yield host
    host.remove()


@pytest.fixture(scope="module")
def postgres(found):
    import service_hosts

    try:
        host = service_hosts.Postgres()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    yield host
    host.remove()


def test_steps_and_decisions_beside_a_bare_server(files, tmp_path):
    import service_speed

    row = service_speed.durable(files, tmp_path, seconds=0.5, turns=1, rate=4000, decisions=50)
    assert row["ratio"] > 0
    for server in (row["cede"], row["bare"]):
        assert server["steps"] > 0
        assert server["decides"] > 0


def test_any_order_over_several_clients(files, tmp_path):
    import service_safety

    row = service_safety.in_any_order(files, tmp_path, steps=4000, teams=4)
    assert row["statuses"] == {"200": 8}
    assert (row["differences"], row["verify"]) == (0, 0)


def test_a_difference_would_be_found(files, tmp_path):
    import service_safety
    import service_speed
    import service_traffic
    from cede.serve.store.database import Database

    url, log = files.new(), service_traffic.play(1, 2, 0)
    database = Database(url)
    service_speed.registered_river(database, 1)
    database.close()
    assert service_safety.differences(url, log)["differences"] == 40 + 40 + 2  # of agents, of the environment, episodes


@pytest.mark.parametrize(("what", "kills"), [("planner", 2), ("PostgreSQL", 1)])
def test_killed_under_load(postgres, tmp_path, what, kills):
    import service_safety

    row = service_safety.killed(postgres, tmp_path, what=what, kills=kills)
    assert row["acknowledged_steps"] > 0
    assert [row[name] for name in ("missing", "unknown", "lost", "wrong_plans", "verify")] == [0] * 5


def test_many_teams(files, tmp_path):
    import service_speed

    row = service_speed.many_teams(files, tmp_path, registered=300, active=50, probes=10)
    assert row["full_mib"] < 1000


def test_all_steps_are_counted_again(files, tmp_path):
    import service_speed

    row = service_speed.rebuilt(files, tmp_path, steps=2000, teams=4)
    assert row["steps"] == row["counted"] == 2000
