"""The conformance kit: cede's own learners pass, and each broken promise is reported in its sentence."""

import itertools

import numpy as np
import pytest

import cede
from cede.testing import check_learner, small_tasks

ALL = list(small_tasks())
LEARNERS = {
    "recommended": lambda task, seed: cede.recommended(task, seed=seed),
    "ucrl2_mc": lambda task, seed: cede.ucrl2_mc(task, seed=seed),
    "posterior_sampling": lambda task, seed: cede.posterior_sampling(task, seed=seed),
    "ucrl2": lambda task, seed: cede.ucrl2(task, seed=seed),
    "greedy": lambda task, seed: cede.greedy(task, seed=seed),
    "fixed": lambda task, seed: cede.fixed(task, 1),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_own_learners_pass(name):
    assert check_learner(LEARNERS[name]) == ALL


class Right:
    """Gives each episode to the next agent; right for every task. The wrong learners below differ from it in one point each."""

    def __init__(self, task, seed):
        self.task, self.agent = task, 0

    def choose(self, *place):
        return self.agent

    def observe(self, *step, cost, enter_cost):
        pass

    def end_episode(self):
        self.agent = (self.agent + 1) % self.task.n_agents

    def drop_episode(self):
        pass

    @property
    def policy(self):
        return self.task.always(self.agent)


def test_a_right_learner_passes():
    assert check_learner(Right) == ALL
    endless = cede.Task(np.zeros((2, 1)), ["a", "b"], None, discount=0.5)
    assert check_learner(Right, endless, seed=3) == ["task"]
    varied = {"periods": [0, 1, 1], "varies_with": ["time", "prev_agent"], "control_cost": np.ones((2, 2))}
    times = cede.Task(np.zeros((2, 1)), ["a", "b"], 3, enter_cost=[0, np.nan], enter_cost_range=(0, 1), **varied)
    assert check_learner(Right, times) == ["task"]


class NoEnd:
    def choose(self, *place):
        return 0

    def observe(self, *step, cost, enter_cost):
        pass


class Beyond(Right):
    policy = None

    def choose(self, *place):
        return 7


class NoCosts(Right):
    def observe(self, *step):
        pass


class WithTime(Right):
    def choose(self, t, state, prev_agent):
        return self.agent


class WrongShape(Right):
    policy = np.zeros((1, 1), dtype=int)


class Unfaithful(Right):
    def choose(self, *place):
        return 1 - self.agent


class Moody(Right):
    policy = None
    made = itertools.count()

    def __init__(self, task, seed):
        super().__init__(task, seed)
        self.agent = next(Moody.made) % 2


class Forgetful(Right):
    """Refuses what another agent did than the chosen one."""

    def observe(self, *step, cost, enter_cost):
        if step[-3] != self.agent:
            raise RuntimeError("that was not I")


class Punctual(Right):
    def __init__(self, task, seed):
        super().__init__(task, seed)
        self.steps = 0

    def observe(self, *step, cost, enter_cost):
        self.steps += 1

    def end_episode(self):
        if self.steps != self.task.horizon:
            raise RuntimeError("too early")
        self.steps = 0


class Lost(Right):
    """Does not work after drop_episode."""

    def drop_episode(self):
        self.agent = None

    @property
    def policy(self):
        return None


class NotSimulated(Right):
    task_of_another = cede.Task(np.zeros((9, 9)), ["a", "b"], 5)

    def __init__(self, task, seed):
        super().__init__(task, seed)
        self.own, self.task = task, self.task_of_another

    def end_episode(self):
        pass

    @property
    def policy(self):
        return self.own.always(0)


WRONG = {
    "no method": (lambda task, seed: NoEnd(), r"which has no end_episode; it must return an object with choose, observe and"),
    "a class": (lambda task, seed: Right, "make returned a class; it must return an object"),
    "make fails": (lambda task: Right(task, 0), r"make\(task, seed\) raised TypeError \(.*; it must return a learner"),
    "no agent": (
        Beyond,
        r"choose returned 7 at t 0, state \d, prev_agent 0; it must return an agent: an index from 0 to 1, or a name",
    ),
    "observe": (
        NoCosts,
        r"observe raised TypeError \(.*; it must take observe\(t, state, prev_agent, agent, action, next_state, cost",
    ),
    "time": (WithTime, r"without a horizon: choose raised TypeError \(.*; it must take choose\(state, prev_agent\)"),
    "shape": (WrongShape, r"the plan or policy that it shows is wrong: .*; it must be 5x3x2 agents, or None"),
    "not kept": (Unfaithful, r"choose returned 1 at t 0, .* but the policy that it shows says 0; it must keep to that policy"),
    "seed": (Moody, r"two learners with seed 0 chose \d and \d in step 0 of episode 0; the same seed must give the same choices"),
    "others": (
        Forgetful,
        r"observe raised RuntimeError \(that was not I\) where another agent acted than was chosen; it must take",
    ),
    "early end": (Punctual, r"end_episode raised RuntimeError \(too early\) of an episode that ends after one step; it must take"),
    "drop": (Lost, r"choose returned None at t 0, state \d, prev_agent 0 after drop_episode; it must return an agent"),
    "simulate": (NotSimulated, r"cede.simulate raised ValueError \(.*the learner's states.*; the learner must run in it"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_broken_promise_is_reported_in_its_sentence(name):
    make, sentence = WRONG[name]
    with pytest.raises(AssertionError, match=r"^check_learner: \d+ promises? (is|are) broken\n- ") as caught:
        check_learner(make)
    assert caught.match(sentence)


def test_only_the_broken_promise_is_reported():
    with pytest.raises(AssertionError) as caught:
        check_learner(WithTime)
    assert str(caught.value).count("\n- ") == 1
    assert "with a horizon" not in str(caught.value).replace("without a horizon", "")


def test_a_barred_handover_is_reported():
    task = cede.Task(np.zeros((2, 1)), ["a", "b"], 3, switch_cost=[[0.0, np.inf], [0.0, 0.0]])

    class Barred(Right):
        policy = None

    with pytest.raises(AssertionError, match=r"choose returned 1 at .*; it must return an agent to whom"):
        check_learner(Barred, task)


def test_kinds_of_tasks_can_be_left_out():
    def with_horizon(task, seed):
        if task.horizon is None:
            raise NotImplementedError
        return Right(task, seed)

    assert check_learner(with_horizon) == [name for name in ALL if name != "without a horizon"]

    def none(task, seed):
        raise NotImplementedError

    with pytest.raises(AssertionError, match="NotImplementedError for every task; it must make a learner for at least one"):
        check_learner(none)


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"check_learner: make is 3, must be a function \(task, seed\) -> learner"):
        check_learner(3)
    with pytest.raises(ValueError, match="check_learner: task is 'x', must be a Task"):
        check_learner(Right, "x")
    with pytest.raises(ValueError, match="check_learner: seed is -1, must be"):
        check_learner(Right, seed=-1)
    slow = cede.Task(np.zeros((2, 1)), ["a", "b"], 3, takeover_delay={"b": 1})
    with pytest.raises(ValueError, match="check_learner: task is one with takeover_delay, must be a task without"):
        check_learner(Right, slow)
