"""Runs any learner under the true model by calls of its methods: how `simulate` runs learners that are not cede's own.

It draws the same random numbers in the same order as the compiled runs (run.py), so cede's own learners have the same history here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede._base.progress import Progress
from cede.beliefs.truth import true_beliefs
from cede.fleet.episodes import EpisodeArrays, Truth, first_state, numbers_drawn
from cede.fleet.episodes import step as play_step
from cede.fleet.evaluations import Evaluations
from cede.fleet.grouping import stream_of
from cede.fleet.history import RunRecord
from cede.learners.learner import Learner
from cede.learners.protocol import CALLS, drop_episode
from cede.planning.passes import model_of, start_cost, true_value
from cede.planning.planner import solve
from cede.problem.model import TwoLayerMDP
from cede.problem.policies import checked_switching_policy
from cede.problem.task import Task
from cede.steps.cost import Account
from cede.steps.loop import play
from cede.steps.step import Step

OWNER = "simulate"
EXACT, NOT_KNOWN = "exact", "not known: the learner shows no policy (history.realised_regret has what is known)"


def is_own(learner: Any) -> bool:
    """Return whether a learner is one of cede's own with unchanged choices, and so runs in compiled code."""
    return isinstance(learner, Learner) and all(getattr(type(learner), name) is getattr(Learner, name) for name in CALLS)


def shown_policy(task: Task, learner: Any) -> Policy | None:
    """Return the policy that a learner shows as its `plan` or `policy`, in the form that kernels read; None if it shows none."""
    for name in ("plan", "policy"):
        policy = getattr(learner, name, None)
        if check.ndim(policy) > 0 or hasattr(policy, "policy"):
            return checked_switching_policy(f"{OWNER}, {name} of the learner", task, policy)
    return None


def truth_of(mdp: TwoLayerMDP) -> Truth:
    """Return a problem in the form in which kernels play it."""
    return Truth.of(mdp.task, mdp.environment, model_of(mdp.task, *true_beliefs(mdp)))


class Player:
    """The true tables as a `World` in which any learner plays. It draws the random numbers of the compiled runs in their order,
    evaluates the policies that the learner shows, and checks that it follows them.
    """

    def __init__(self, mdp: TwoLayerMDP, learner: Any, rng: np.random.Generator) -> None:
        self.mdp, self.task, self.learner, self.rng = mdp, mdp.task, learner, rng
        plan = solve(mdp)
        self.best = plan.value.reshape(-1, self.task.n_states, self.task.n_agents)
        self.optimum = start_cost(mdp, self.best) if plan.gain is None else plan.gain
        self.policy: Policy | None = None  # the learner's current policy
        self.evaluated: Policy | None = None  # the policy of `value`
        self.value: Floats = self.best
        self.truth, self.steps = truth_of(mdp), EpisodeArrays.empty(mdp.task.plan_steps)
        self.drawn = numbers_drawn(mdp.environment, mdp.task)
        self.chance: Floats = rng.random(self.drawn if mdp.horizon is None else 0)  # of the episode; without a horizon, of a step
        self.agent = int(self.task.start_agent)  # without a horizon: the last agent, and the state
        self.state = int(first_state(self.truth, self.chance[2])) if mdp.horizon is None else 0
        self.expected, self.regret = 0.0, 0.0  # without a horizon: sums over the steps of a block

    def evaluate(self) -> float:
        """Return the expected cost of `policy`, and keep its value; NaN if there is none."""
        if self.policy is None:
            return np.nan
        if self.evaluated is None or not np.array_equal(self.evaluated, self.policy):
            self.value, self.evaluated = true_value(self.mdp, self.policy), self.policy.copy()
        return start_cost(self.mdp, self.value)

    def choose(self, t: int, state: int, prev_agent: int) -> int:
        """Return the agent that the learner chooses, after checks. Without a horizon, evaluate its policy first."""
        if self.task.horizon is not None:
            return self.checked_choice(self.learner.choose(t, state, prev_agent), t, state, prev_agent)
        self.policy, place = shown_policy(self.task, self.learner), (0, state, prev_agent)
        cost_from_start = self.evaluate()
        value = np.nan if self.policy is None else self.value[place]
        if self.task.discount is None:
            self.expected += value
        else:
            self.expected += cost_from_start
            self.regret += value - self.best[place]
        return self.checked_choice(self.learner.choose(state, prev_agent), *place)

    def checked_choice(self, choice: Any, t: int, state: int, prev: int) -> int:
        """Check a choice: the agent can get control, and is that of the learner's policy."""
        agent = self.task.agent_index(OWNER, "what choose answered", choice)
        if not self.task.may_choose(state, prev)[agent]:
            names = check.show(self.task.agents[agent]), check.show(self.task.agents[prev])
            check.fail(OWNER, "what choose answered", names[0], f"an agent to whom {names[1]} can hand control")
        if self.policy is not None and self.policy[t, state, prev] != agent:
            place = f"what choose answered at {check.place_of('policy', (t, state, prev))}"
            expected = f"{self.policy[t, state, prev]}, as the learner shows; one that chooses otherwise must show no policy"
            check.fail(OWNER, place, agent, expected)
        return agent

    def act(self, t: int, state: int, prev_agent: int, agent: int) -> tuple[Step, bool]:
        """Play a step under the true tables; return it, and whether the episode is over."""
        steps, chance, horizon = self.steps, self.chance, self.task.horizon
        if horizon is None:
            t, chance = 0, self.rng.random(self.drawn)
            of_order = chance[3] if self.task.has_orders else 0.0
            self.chance, chances = chance, (of_order, chance[0], chance[1], chance[-1])
        else:
            of_cost = chance[2 * horizon + t] if self.mdp.environment.random_cost is not None else 0.0
            of_order = chance[len(chance) - 1 - horizon + t] if self.task.has_orders else 0.0
            chances = (of_order, chance[2 * t], chance[2 * t + 1], of_cost)
        steps.states[t], steps.who[t] = state, prev_agent
        play_step(self.truth, t, agent, *chances, steps)
        agent, to, costs = int(steps.who[t + 1]), int(steps.states[t + 1]), (float(steps.env_costs[t]), float(steps.enter_costs[t]))
        return Step(t, state, prev_agent, agent, int(steps.actions[t]), to, *costs), bool(self.task.is_terminal[to])

    def charged(self, step: Step) -> dict[str, float]:
        """Return the costs of a step for `observe`: of the action that of the learner's task, or the drawn cost if the task states
        none; those of the team if the task does not state all of them.
        """
        own = getattr(self.learner, "task", None)
        result = {"cost": step.cost, "enter_cost": step.enter_cost}
        if not isinstance(own, Task):
            return result
        if not np.isnan(stated := float(own.env_cost[step.state, step.action])):
            result["cost"] = stated
        if own.learns_team_costs:
            control, switching = self.task.control_costs(step.state, step.prev_agent, step.agent)
            result |= {"control_cost": float(control), "switch_cost": float(switching)}
        return result

    def play_episode(self) -> Account:
        """Play one episode of the learner."""
        self.chance, account = self.rng.random(self.drawn), Account(self.task, self.task.layout.factor)
        play(self, account, int(first_state(self.truth, self.chance[-1])), int(self.task.start_agent), self.task.horizon)
        self.learner.end_episode()
        return account

    def play_block(self, block: int) -> Account:
        """Play a block of steps of a run without horizon. Where an episode ends, another one begins."""
        account, self.expected, self.regret = Account(self.task), 0.0, 0.0
        while account.steps < block:
            self.state, self.agent, over = play(self, account, self.state, self.agent, block - account.steps)
            if over:
                self.learner.end_episode()
                self.state, self.agent = int(first_state(self.truth, self.chance[2])), int(self.task.start_agent)
        return account


def play_by_calls(
    mdp: TwoLayerMDP,
    learner: Any,
    length: tuple[int, int],
    rng: np.random.Generator,
    progress: bool | Callable[[int], None],
    evaluate_every: int,
) -> tuple[RunRecord, str]:
    """Run any learner; return the results, and in words whether regret is exact. length: number of episodes or blocks, and steps of
    a block.
    """
    episodes, block = length
    evaluations = Evaluations(stream_of(rng.bit_generator), episodes, 1 if mdp.horizon is None else evaluate_every)
    player, record = Player(mdp, learner, rng), RunRecord.empty([mdp], episodes)
    optimum, ledger, is_shown = player.optimum, record.ledger, np.ones(episodes, dtype=np.bool_)
    record.optimum[0] = optimum
    with Progress(type(learner).__name__, episodes, progress) as bar:
        for k in range(episodes):
            try:
                if mdp.horizon is None:
                    account, expected = player.play_block(block), player.expected / block
                    averaged = block * (expected - optimum)
                    ledger.expected_cost[0, k] = expected
                    ledger.regret[0, k] = averaged if mdp.discount is None else player.regret
                else:
                    player.policy = shown_policy(mdp.task, learner)
                    ledger.expected_cost[0, k] = player.evaluate() if evaluations.is_chosen[k] else 0.0
                    is_shown[k] = player.policy is not None
                    account = player.play_episode()
                ledger.cost[0, k], ledger.control[0, k], ledger.switches[0, k] = account.cost, account.control, account.switches
            except BaseException:
                drop_episode(learner)
                raise
            bar.advance(1)
    if mdp.horizon is None:
        learner.end_episode()
    else:
        evaluations.carry(ledger)
        ledger.expected_cost[0, ~is_shown] = np.nan
        ledger.regret[0] = ledger.expected_cost[0] - optimum
    every = evaluations.every
    exact = EXACT if every == 1 else f"{EXACT} in one of {every} episodes, drawn at random, which stands for all of them"
    return record, NOT_KNOWN if np.isnan(ledger.regret).any() else exact
