"""Short reprs: one screen whatever the size, names shown harmlessly, nothing planned, nothing compiled, nothing raised."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import cede
from cede._base.reprs import listed
from cede.planning.passes import Plan
from cede.rows.stored import Counts
from cede.steps.step import Episode
from problems import random_mdp

MOST = 600


def things():
    mdp = random_mdp(3, n_agents=3, horizon=4)
    learner = cede.ucrl2_mc(mdp.task)
    history = cede.simulate(mdp, learner, 20, progress=False)
    fleet = cede.Fleet([cede.ucrl2_mc(mdp.task) for _ in range(2)])
    yield from (mdp, mdp.task, mdp.environment, mdp.team, mdp.team.agents[0], learner, learner.plan, learner.counts, history)
    yield from (fleet, cede.insight.summarise(learner), cede.insight.bounds(learner), cede.rollout(mdp, learner.plan, 0))
    yield cede.simulate_fleet([mdp, mdp], fleet, 3, jobs=1, progress=False)
    endless = cede.TwoLayerMDP(mdp.environment, random_mdp(3, n_agents=2, kinds=[None]).team, None, discount=0.9)
    yield cede.ucrl2_mc(endless.task)
    yield cede.encode.uniform_bins([0, 0], [1, 1], 3, labels=["a", "b"])


def test_one_screen():
    for thing in things():
        text = repr(thing)
        assert text.startswith(f"{type(thing).__name__}("), text
        assert len(text) < MOST
        assert "array(" not in text


def test_what_they_say():
    task = cede.Task(n_states=60, n_actions=4, cost_range=(0, 10), agents=["robot", "operator"], horizon=40, terminal=[58, 59])
    assert repr(task) == "Task(60 states, 4 actions, horizon 40, ends in 2 states, costs are learned, agents: robot, operator)"
    learner = cede.ucrl2_mc(task)
    learner.observe(0, 0, 0, 1, 0, 1, cost=1.0)
    assert repr(learner) == f"Learner(ucrl2_mc, 0 episodes learned, 1 of the running one, {task!r})"


@pytest.mark.parametrize(
    "kind", [cede.Task, cede.TwoLayerMDP, cede.Environment, cede.Agent, cede.Team, Plan, Counts, Episode, cede.Learner]
)
def test_never_raises(kind):
    """Of an object that was not made completely, as a debugger may see it."""
    assert repr(kind.__new__(kind)) == f"<{kind.__name__}>"


def test_names_are_shown_harmlessly():
    rude = "\x1b[2J\n" + "x" * 10_000
    agents = [cede.Agent(rude + str(i), np.full((1, 1), 1.0)) for i in range(50)]
    mdp = cede.TwoLayerMDP(cede.Environment([[[1.0]]], [[0.0]], [1.0]), cede.Team(agents), 2)
    learner = cede.ucrl2_mc(mdp.task)
    for thing in (mdp, mdp.task, mdp.team, agents[0], learner):
        text = repr(thing)
        assert "\x1b" not in text
        assert "\n" not in text
        assert len(text) < 900
    assert listed([str(i) for i in range(9)]) == "0, 1, 2, 3, 4, 5, ... (9 in all)"


def test_a_million_states():
    n = 10**6
    rows = sp.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    names = [f"state {i}" for i in range(n)]
    environment = cede.Environment(rows, np.zeros((n, 1)), np.eye(1, n)[0], state_names=names)
    team = cede.Team([cede.Agent("one", np.ones((n, 1)))])
    mdp = cede.TwoLayerMDP(environment, team, 1)
    for thing in (environment, team, mdp, mdp.task, cede.ucrl2_mc(mdp.task)):
        assert len(repr(thing)) < MOST


def test_a_repr_plans_and_compiles_nothing():
    code = """
import cede
task = cede.Task(env_cost=[[0.0, 0.0], [1.0, 1.0]], agents=["a", "b"], horizon=3)
learner = cede.ucrl2_mc(task)
fleet = cede.Fleet([cede.ucrl2_mc(task)])
before = learner.state.planned
print(repr(learner), repr(fleet), repr(learner.counts))
assert learner.state.planned == before == 0
import cede._kernels.compiling as compiling, sys
found = 0
for name in [name for name in sys.modules if name.startswith("cede.")]:
    for value in vars(sys.modules[name]).values():
        found += len(value.inner.signatures) if isinstance(value, compiling.Kernel) else 0
print(found)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0"
