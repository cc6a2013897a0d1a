"""Plans that are made in processes and on Ray: the same bits, and a worker that dies costs the plan that it made."""

import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import cede
from cede import cli
from cede._base.archive import UnreadableFile
from cede.serve import served as work_module
from cede.serve.planner.plans import Planner
from cede.serve.planner.workers import PlanWorkers
from cede.serve.served import PlanServer, unpacked_policy
from cede.serve.store.database import Database
from cede.serve.store.log import take_in
from cede.serve.store.store import Store
from ray_turns import local_cluster
from traffic import episodes, put, report, river, rows, run


def fill(store):
    """Teams of three environments: one with structure, one whose plans are drawn, one that learns costs."""
    mdp, desk = river(), cede.worlds.support_desk()
    learning = replace(desk.task.with_unknown_costs((0.0, 0.3)), enter_cost_range=(0, 5))
    teams = put(store, cede.ucrl2_mc(mdp.task, belief="kl", structure=mdp.structure), {"a": 0, "b": 1}, "structured")
    teams += put(store, cede.posterior_sampling(mdp.task), {"c": 3, "d": 4, "e": 5}, "drawn")
    teams += put(store, cede.recommended(learning), {"f": 6}, "desk")
    for i, team in enumerate(teams[:-2]):
        tell(store, team, mdp, 3, i)
    tell(store, teams[-1], desk, 12, 9)  # e has told nothing
    return teams


def tell(store, team, mdp, n, seed):
    for number, episode in enumerate(episodes(mdp, n, seed)):
        one = report(rows(team, number, episode), [(team.id, number, len(episode.actions))])
        store.database.write(lambda c, one=one: take_in(c, store.team, [one]))


@pytest.fixture(scope="module")
def processes():
    found = PlanWorkers("processes", 2)
    yield found
    found.close()


def made(store, workers):
    """The plans of all teams, as workers make them, and as they are made here."""
    planner = Planner(store, workers=workers)
    numbers = store.database.write(planner.lease)
    return planner.make(numbers), Planner(store).make(numbers), planner


def same(plans, others):
    assert len(plans) == len(others) > 0
    for one, other in zip(plans, others, strict=True):
        assert one.policy.dtype == other.policy.dtype
        np.testing.assert_array_equal(one.policy, other.policy)
        names = ("version", "episodes", "environment_episodes", "reason")
        assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]


def test_processes_make_the_same_plans(store, processes):
    teams = fill(store)
    plans, here, planner = made(store, processes)
    same(plans, here)
    assert {plan.team.name for plan in plans} == {team.name for team in teams}
    assert len({plan.policy.tobytes() for plan in plans}) > 3
    assert len(store.database.write(lambda c: planner.publish(c, plans))) == len(teams)
    with store.database.read() as connection:
        for plan in here:
            kept = run(connection, "SELECT policy FROM policies WHERE team = ?", (plan.team.id,)).scalar()
            np.testing.assert_array_equal(unpacked_policy(plan.team, bytes(kept)), plan.policy)
    assert planner.at_once == 2 * Planner(store).at_once


def test_a_worker_that_is_killed_costs_one_plan_and_is_replaced(store, processes):
    teams, errors = fill(store), []
    planner = Planner(store, failed=errors.append, workers=processes, lease=-1)
    dead = processes.engine.workers[0].process
    os.kill(dead.pid, signal.SIGKILL)
    dead.join()
    assert planner.once() == len(teams)
    assert (planner.made, planner.failures) == (len(teams) - 1, 1)
    assert "planner: a worker was lost" in str(errors[0])
    assert "killed by signal 9" in str(errors[0])
    assert processes.engine.workers[0].process.is_alive()
    assert planner.once() == 1  # its lease is over
    assert (planner.made, planner.failures, planner.once()) == (len(teams), 1, 0)


def test_what_fails_in_a_worker_is_the_failure_of_one_team(store, processes, monkeypatch):
    teams, errors = fill(store), []
    planner = Planner(store, failed=errors.append, workers=processes)
    monkeypatch.setattr(work_module, "__version__", "0")  # of messages that are made here
    assert planner.once() == len(teams)
    assert planner.failures == len(teams)
    assert "the worker has cede" in str(errors[0])
    assert "must be 0, as here" in str(errors[0])


def test_messages_are_arrays_and_nothing_else(store):
    team = fill(store)[0]
    with store.database.read() as connection:
        [(work, _)] = store.plan_works(connection, [team])
    message = work.packed
    np.testing.assert_array_equal(PlanServer().do(message), work.policy())
    with pytest.raises(UnreadableFile):
        PlanServer().do(pickle.dumps(work.seed))
    with pytest.raises(UnreadableFile):
        PlanServer().do(message[:-40])


def test_a_worker_needs_no_database():
    code = "import sys; sys.modules.update(dict.fromkeys(('sqlalchemy', 'alembic', 'fastapi'))); import cede.serve.served"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ------------------------------------------------------------------------------------------------- the command

call = CliRunner().invoke


def test_the_command(url, monkeypatch):
    database = Database(url)
    teams = fill(Store(database))
    database.close()
    found = call(cli.app, ["planner", "--once", "--jobs", "2", "--db", url])
    assert (found.exit_code, f"plans made: {len(teams)}" in found.output) == (0, True), found.output
    wrong = call(cli.app, ["planner", "--once", "--address", "127.0.0.1:9", "--db", url])
    assert wrong.exit_code == 2
    assert "planner: address is '127.0.0.1:9', must be left out with engine 'processes'" in wrong.output
    monkeypatch.setitem(sys.modules, "ray", None)
    wrong = call(cli.app, ["planner", "--once", "--engine", "ray", "--db", url])
    assert wrong.exit_code == 2
    assert 'pip install "cede[ray]"' in wrong.output
    with pytest.raises(ValueError, match="planner: engine is 'cloud', must be one of 'processes', 'ray'"):
        PlanWorkers("cloud")


def children(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid):
    """Whether a process runs; one that ended and that nobody has waited for does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_planner(tmp_path, number):
    url = f"sqlite:///{tmp_path}/cede.db"
    database = Database(url)
    teams = fill(Store(database))
    command = [sys.executable, "-m", "cede.cli", "planner", "--jobs", "2", "--db", url]
    planner = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert planner.stdout.readline().startswith("planner: ")
    workers = [pid for pid in children(planner.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(workers) == 2
    plans = 0
    while plans < len(teams):
        time.sleep(0.05)
        with database.read() as connection:
            plans = run(connection, "SELECT COUNT(*) FROM plans").scalar()
    planner.send_signal(number)
    said, errors = planner.communicate(timeout=600)
    assert (planner.returncode, said) == ((0, f"plans made: {plans}\n") if number == signal.SIGTERM else (-9, ""))
    assert errors == ""
    for _ in range(30_000):
        if not any(map(alive, workers)):
            break
        time.sleep(0.02)
    assert not any(map(alive, workers))
    database.close()


# ------------------------------------------------------------------------------------------------- Ray itself


@pytest.fixture(scope="module")
def ray():
    """One cluster for all tests."""
    with local_cluster() as module:
        yield module


@pytest.mark.slow
def test_ray_makes_the_same_plans_and_survives_the_death_of_a_worker(store, ray):
    teams, errors = fill(store), []
    workers = PlanWorkers("ray", 2)
    try:
        same(*made(store, workers)[:2])
        store.database.write(lambda c: run(c, "UPDATE teams SET lease = NULL"))
        planner = Planner(store, failed=errors.append, workers=workers, lease=-1)
        ray.kill(workers.engine.workers[0].actor)
        assert planner.once() == len(teams)
        assert (planner.made, planner.failures) == (len(teams) - 1, 1)
        assert "planner: a worker was lost" in str(errors[0])
        assert planner.once() == 1
        assert (planner.made, planner.failures) == (len(teams), 1)
    finally:
        workers.close()
    assert ray.is_initialized()  # it was not ours to stop


@pytest.mark.slow
def test_ray_is_asked_for_no_more_than_it_has(ray):
    with pytest.raises(ValueError, match="engine 'ray': jobs is 9000, must be at most 2, the processors of the cluster"):
        PlanWorkers("ray", 9000)


def test_no_cluster_at_the_address_is_said_at_once(tmp_path):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    code = "from cede.cli import app; app()"
    options = ["planner", "--once", "--engine", "ray", "--address", "127.0.0.1:9", "--db", f"sqlite:///{tmp_path}/cede.db"]
    found = subprocess.run([sys.executable, "-c", code, *options], check=False, capture_output=True, text=True)
    assert found.returncode == 2
    assert "engine 'ray': no cluster answers at address '127.0.0.1:9'" in found.stderr
