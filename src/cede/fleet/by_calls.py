"""Runs any learner under the true model, one call after the other: what `simulate` does where a learner is not cede's own.

It draws the same random numbers in the same order as the compiled runs (run.py), so cede's own learners, called like this, have the
same history.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede._base.progress import Progress
from cede._kernels.episodes import step as play_step
from cede.fleet.evaluations import Evaluations
from cede.fleet.history import RunRecord
from cede.fleet.run import stream_of
from cede.fleet.shard import new_steps, numbers_drawn, true_problem
from cede.learning.endless import EndlessLearner
from cede.learning.learner import Learner
from cede.learning.protocol import CALLS, drop_episode
from cede.planning.belief import true_beliefs
from cede.planning.passes import model_of, start_cost, true_value
from cede.planning.planner import solve
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task, checked_switching_policy

OWNER = "simulate"
EXACT, NOT_KNOWN = "exact", "not known: the learner shows no policy (history.realised_regret has what is known)"


def is_own(learner: Any) -> bool:
    """Return whether a learner is one of cede's own, and makes its choices as they do: then it runs in compiled code."""
    kinds = (Learner, EndlessLearner)
    return isinstance(learner, Learner) and any(
        all(getattr(type(learner), name) is getattr(kind, name) for name in CALLS) for kind in kinds
    )


def shown_policy(task: Task, learner: Any) -> Policy | None:
    """Return the policy that a learner shows as its `plan` or `policy`, in the form that kernels read; None if it shows none."""
    for name in ("plan", "policy"):
        given = getattr(learner, name, None)
        if check.ndim(given) > 0 or hasattr(given, "policy"):
            return checked_switching_policy(f"{OWNER}, {name} of the learner", task, given)
    return None


class Judge:
    """Finds out what the policies cost that a learner shows, and that it keeps to them."""

    def __init__(self, mdp: TwoLayerMDP) -> None:
        self.mdp, self.task = mdp, mdp.task
        plan = solve(mdp)
        self.best = plan.value.reshape(-1, self.task.n_states, self.task.n_agents)
        self.optimum = start_cost(mdp, self.best) if plan.gain is None else plan.gain
        self.policy: Policy | None = None
        self.evaluated: Policy | None = None  # the policy that `value` is the value of
        self.value: Floats = self.best

    def look_at(self, learner: Any) -> None:
        """Look which policy a learner shows now."""
        self.policy = shown_policy(self.task, learner)

    def evaluate(self) -> float:
        """Return the expected cost of the policy that is shown, and keep its value; NaN if none is."""
        if self.policy is None:
            return np.nan
        if self.evaluated is None or not np.array_equal(self.evaluated, self.policy):
            self.value, self.evaluated = true_value(self.mdp, self.policy), self.policy.copy()
        return start_cost(self.mdp, self.value)

    def checked_choice(self, given: Any, t: int, state: int, prev: int) -> int:
        """Check what a learner chose: an agent who can get control, and the one that its policy says."""
        agent = self.task.agent_index(OWNER, "what choose answered", given)
        if not self.task.can_hand_over[prev, agent]:
            names = check.show(self.task.agents[agent]), check.show(self.task.agents[prev])
            check.fail(OWNER, "what choose answered", names[0], f"an agent to whom {names[1]} can hand control")
        if self.policy is not None and self.policy[t, state, prev] != agent:
            place = f"what choose answered at {check.place_of('policy', (t, state, prev))}"
            expected = f"{self.policy[t, state, prev]}, as the learner shows; one that chooses otherwise must show no policy"
            check.fail(OWNER, place, agent, expected)
        return agent


class Player:
    """Plays steps under the true tables, as a learner chooses, and lets it see them."""

    def __init__(self, mdp: TwoLayerMDP, learner: Any, rng: np.random.Generator) -> None:
        self.mdp, self.task, self.learner, self.rng = mdp, mdp.task, learner, rng
        self.truth = true_problem(mdp.task, mdp.environment, model_of(mdp.task, *true_beliefs(mdp)))
        self.steps = new_steps(mdp.task.plan_steps)
        self.drawn = numbers_drawn(mdp.environment, mdp.task)
        self.has_random_cost = mdp.environment.random_cost is not None
        self.judge = Judge(mdp)

    def first_state(self, chance: float) -> int:
        """Draw the first state of an episode with a uniform number."""
        return int(np.searchsorted(self.mdp.environment.cumulated_start[:-1], chance, side="right"))

    def step(self, t: int, chances: tuple[float, float, float]) -> tuple[int, int, float]:
        """Play the step at time t; return the agent, the next state and what the step cost. chances: of action, state and cost."""
        steps, timed = self.steps, () if self.task.horizon is None else (t,)
        state, prev = int(steps.states[t]), int(steps.who[t])
        agent = self.judge.checked_choice(self.learner.choose(*timed, state, prev), t, state, prev)
        play_step(self.truth, t, agent, *chances, steps)
        to, action = int(steps.states[t + 1]), int(steps.actions[t])
        charged = {"cost": self.cost_seen(state, action, float(steps.env_costs[t])), "enter_cost": float(steps.enter_costs[t])}
        self.learner.observe(*timed, state, prev, agent, action, to, **charged)
        return agent, to, float(steps.costs[t])

    def cost_seen(self, state: int, action: int, drawn: float) -> float:
        """Return the cost of an action that the learner sees: what its own task says, or else what was drawn."""
        own = getattr(self.learner, "task", None)
        told = float(own.env_cost[state, action]) if isinstance(own, Task) else np.nan
        return drawn if np.isnan(told) else told

    def play_episode(self, record: RunRecord, k: int) -> None:
        """Play one episode, and enter it as number k, from 0 on."""
        task, steps, ledger = self.task, self.steps, record.ledger
        chance = self.rng.random(self.drawn)
        steps.states[0], steps.who[0] = self.first_state(chance[-1]), task.start_agent
        total, weight = 0.0, 1.0
        for t in range(task.horizon):
            of_cost = chance[2 * task.horizon + t] if self.has_random_cost else 0.0
            agent, to, cost = self.step(t, (chance[2 * t], chance[2 * t + 1], of_cost))
            total, weight = total + weight * cost, weight * task.factor
            ledger.control[0, k, task.acting[agent]] += 1
            ledger.switches[0, k] += task.aim[steps.who[t]] != task.aim[agent]
            if task.is_terminal[to]:
                break
        ledger.cost[0, k] = total
        self.learner.end_episode()

    def play_block(self, record: RunRecord, k: int, block: int) -> None:
        """Play a block of steps of a run without horizon, and enter it as number k. The columns are those of the compiled runs."""
        task, steps, ledger, judge = self.task, self.steps, record.ledger, self.judge
        expected = regret = total = 0.0
        for _ in range(block):
            judge.look_at(self.learner)
            cost_from_start = judge.evaluate()
            state, prev = int(steps.states[0]), int(steps.who[0])
            if task.discount is None:
                expected += np.nan if judge.policy is None else judge.value[0, state, prev]
            else:
                expected += cost_from_start
                regret += np.nan if judge.policy is None else judge.value[0, state, prev] - judge.best[0, state, prev]
            chance = self.rng.random(self.drawn)
            agent, to, cost = self.step(0, (chance[0], chance[1], chance[-1]))
            total += cost
            ledger.control[0, k, task.acting[agent]] += 1
            ledger.switches[0, k] += task.aim[prev] != task.aim[agent]
            over = bool(task.is_terminal[to])
            if over:
                self.learner.end_episode()
            steps.states[0], steps.who[0] = (self.first_state(chance[2]), task.start_agent) if over else (to, agent)
        ledger.expected_cost[0, k] = expected / block
        ledger.regret[0, k] = block * (expected / block - judge.optimum) if task.discount is None else regret
        ledger.cost[0, k] = total


def play_by_calls(
    mdp: TwoLayerMDP,
    learner: Any,
    length: tuple[int, int],
    rng: np.random.Generator,
    progress: bool | Callable[[int], None],
    evaluate_every: int,
) -> tuple[RunRecord, str]:
    """Run any learner; return the results, and in words whether regret is exact. length: episodes or blocks, steps of a block."""
    episodes, block = length
    player, record = Player(mdp, learner, rng), RunRecord.empty([mdp], episodes)
    judge, ledger, is_shown = player.judge, record.ledger, np.ones(episodes, dtype=np.bool_)
    evaluations = Evaluations(stream_of(rng.bit_generator), episodes, 1 if mdp.horizon is None else evaluate_every)
    record.optimum[0] = judge.optimum
    if mdp.horizon is None:
        player.steps.states[0], player.steps.who[0] = player.first_state(rng.random(player.drawn)[2]), mdp.task.start_agent
    with Progress(type(learner).__name__, episodes, progress) as bar:
        for k in range(episodes):
            try:
                if mdp.horizon is None:
                    player.play_block(record, k, block)
                else:
                    judge.look_at(learner)
                    ledger.expected_cost[0, k] = judge.evaluate() if evaluations.is_chosen[k] else 0.0
                    is_shown[k] = judge.policy is not None
                    player.play_episode(record, k)
            except BaseException:
                drop_episode(learner)
                raise
            bar.advance(1)
    if mdp.horizon is None:
        learner.end_episode()
    else:
        evaluations.carry(ledger)
        ledger.expected_cost[0, ~is_shown] = np.nan
        ledger.regret[0] = ledger.expected_cost[0] - judge.optimum
    every = evaluations.every
    exact = EXACT if every == 1 else f"{EXACT} in one of {every} episodes, drawn at random, which stands for all of them"
    return record, NOT_KNOWN if np.isnan(ledger.regret).any() else exact
