"""Learners: one class, and recipes that put its parts together.

ucrl2_mc   the paper's Algorithm 1: separate confidence sets for the agents and the environment
ucrl2      the baseline of the appendix: one confidence set for p(s' | s, d), blind to actions
greedy     takes what it has seen for the truth (no confidence sets, no guarantee)
fixed      one agent, or one policy, always
oracle     the best policy, for comparison: it alone is told the truth
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from cede import __version__, _check, _kernels
from cede._check import Floats
from cede.belief import CONSTANTS, Belief, Scale, ScaleOf, cost_constant, radii, scale_of, steps_before
from cede.counts import Counts, EnvironmentTally, Episode, Tally, checked_episode
from cede.model import Environment, Task, TwoLayerMDP
from cede.planning import Plan, Policy, certain_policies, checked_policy, flatten, plan_with, solve

MOST_SEED = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a learner believes: all its settings, as data."""

    name: str
    radius: str | None = "printed"  # a key of belief.CONSTANTS; None: width 0
    delta: float = 0.1
    scale: Scale = field(default_factory=Scale)
    flat: bool = False  # learn p(s' | s, d) instead of the two layers
    known_agents: Mapping[int, Floats] = field(default_factory=dict)  # agent -> (slots, S, A)
    known_environment: Environment | None = None
    policy: Policy | None = None  # never plan, always this


class Learner:
    """Learns one team's switching policy: counts of what was seen, and the current plan.

    Between `end_episode` and the next, `plan` is fixed; hand it out and use it anywhere. Every call checks its arguments first:
    after an error the learner is as it was before.
    """

    def __init__(self, task: Task, recipe: Recipe, *, seed: int = 0, counts: Counts | None = None) -> None:
        self.task = task
        self.recipe = recipe
        self.seed = _check.integer(recipe.name, "seed", seed, 0, MOST_SEED)
        zeros = Counts.zeros(task, flat=recipe.flat)
        parts = known_parts(task, recipe)
        self._tally = Tally(task, zeros if counts is None else zeros + counts, flat=recipe.flat, **parts)
        self._steps: list[tuple[int, int, int, int, int, int]] = []  # of the running episode, one by one
        self._episode: Episode | None = None  # the running episode, if it was observed all at once
        self._plan: Plan | None = None
        self._rows = row_maps(task, recipe, self._tally)
        self._certain = certain_belief(task) if recipe.flat else None
        self._flat_task = flatten(task) if recipe.flat else task

    # ------------------------------------------------------------------------------------------------- in a control loop

    def choose(self, t: int, state: int, prev_agent: int) -> int:
        """The agent to put in control at time t, when prev_agent was in control before."""
        task = self.task
        t = _check.index("choose", "t", t, task.horizon)
        state = _check.index("choose", "state", state, task.n_states)
        prev_agent = _check.index("choose", "prev_agent", prev_agent, task.n_agents)
        return int(self.plan.policy[t, state, prev_agent])

    def observe(self, t: int, state: int, prev_agent: int, agent: int, action: int, next_state: int) -> None:
        """One step, in order: t = 0, 1, 2, ... `agent` is who really acted, whatever was chosen."""
        task = self.task
        t = _check.index("observe", "t", t, task.horizon)
        if self._episode is not None:
            _check.fail("observe", "this episode", "observed already", "ended first (end_episode)")
        if t != len(self._steps):
            _check.fail("observe", "t", t, f"{len(self._steps)}, the next step of this episode")
        step = (
            t,
            _check.index("observe", "state", state, task.n_states),
            _check.index("observe", "prev_agent", prev_agent, task.n_agents),
            _check.index("observe", "agent", agent, task.n_agents),
            _check.index("observe", "action", action, task.n_actions),
            _check.index("observe", "next_state", next_state, task.n_states),
        )
        self._steps.append(step)

    def end_episode(self, *, replan: bool = True) -> None:
        """Count what was seen and plan again, or keep the plan. An episode may end before the horizon."""
        for layer in ("agents", "environment"):
            self.recipe.scale.at(layer, self.episode + 1)  # a schedule that fails must fail before anything is counted
        if self._steps:
            self._tally.add(*np.array(self._steps, dtype=np.int64).T.copy())
            self._steps = []
        if self._episode is not None:
            self._tally.add_episode(self._episode)
            self._episode = None
        self._tally.end_episode()
        if replan:
            self.replan()

    def replan(self) -> None:
        """Plan anew from all that was counted."""
        if self.recipe.policy is None:
            self._plan = self._make_plan()

    def observe_episode(self, episode: Episode) -> None:
        """All steps of an episode at once; they count when `end_episode` is called."""
        seen = len(self._steps) if self._episode is None else len(self._episode.actions)
        if seen:
            _check.fail("observe_episode", "the number of steps observed already", seen, "0")
        self._episode = checked_episode("observe_episode", self.task, episode)

    @property
    def environment_tally(self) -> EnvironmentTally | None:
        """What was seen of the environment, to be shared; None if this learner learns nothing that others could use."""
        shareable = not self.recipe.flat and self.recipe.known_environment is None and self.recipe.policy is None
        return self._tally.environment if shareable else None

    def share_environment(self, other: "Learner") -> None:
        """From now on count the environment together with another learner, and plan from what both have seen."""
        self._tally.environment = other._tally.environment
        self._plan = None

    # ------------------------------------------------------------------------------------------------- what it knows

    @property
    def plan(self) -> Plan:
        """The plan of the current episode."""
        if self._plan is None:
            self._plan = self._make_plan()
        return self._plan

    @property
    def counts(self) -> Counts:
        """A snapshot of what was seen in all finished episodes."""
        return self._tally.counts

    @property
    def episode(self) -> int:
        """k = 1, 2, ...: the episode that is running or about to start."""
        return self._tally.episodes + 1

    @property
    def beliefs(self) -> tuple[Belief, Belief]:
        """The sets that follow from what was counted: agents, environment. Snapshots: they stay when the learner goes on."""
        return self._agents_belief().copy(), self._environment_belief().copy()

    @property
    def settings(self) -> dict[str, Any]:
        """All that is needed to repeat it."""
        r, bounded = self.recipe, self.recipe.radius is not None
        return {
            "learner": r.name,
            "radius": r.radius,
            "delta": r.delta if bounded else None,
            "scale": str(r.scale) if bounded else None,
            "known_agents": [self.task.agents[d] for d in r.known_agents],
            "known_environment": r.known_environment is not None,
            "seed": self.seed,
            "cede": __version__,
        }

    # ------------------------------------------------------------------------------------------------- counts -> belief -> plan

    def _make_plan(self) -> Plan:
        r, task = self.recipe, self.task
        if r.policy is not None:
            shape = (task.horizon + 1, task.n_states, task.n_agents)
            return Plan(r.policy, np.broadcast_to(np.nan, shape))
        # Ties depend on the seed and the episode alone: a learner made again from the same counts makes the same plan.
        tie_seed = scramble(scramble(self.seed) + self.episode)
        env_cost = self._optimistic_costs() if r.flat else task.env_cost
        return plan_with(self._flat_task, env_cost, self._agents_belief(), self._environment_belief(), tie_seed)

    def _agents_belief(self) -> Belief:
        if self._certain is not None:
            return self._certain
        task, known = self.task, self.recipe.known_agents
        slots = sum(1 if d in known else int(n) for d, n in enumerate(task.n_slots))
        tally, rows = self._tally, slots * task.n_states
        width = self._width("agents", tally.agents.total, tally.agent_rows, rows, task.n_actions, tally.episodes)
        return Belief(tally.agents, width, self._rows[0])

    def _environment_belief(self) -> Belief:
        tally = self._tally
        table, rows = tally.environment.table, tally.environment.rows
        width = self._width("environment", table.total, rows, rows, self.task.n_states, tally.environment.episodes)
        return Belief(table, width, self._rows[1])

    def _width(self, layer: str, visits: Floats, counted: int, rows: int, outcomes: int, episodes: int) -> Floats:
        """Radius times scale; rows that follow the counted ones are known.

        episodes: how many were counted into this table. A fleet's environment is seen by all its teams, and Lemma 3 needs t_k to be
        at least the visits of a row.
        """
        r = self.recipe
        if r.radius is None:
            return np.zeros(len(visits))
        steps = steps_before(episodes + 1, self.task.horizon)
        constant = CONSTANTS[r.radius](steps=steps, rows=rows, outcomes=outcomes, delta=r.delta)
        return radii(visits, constant, scale=r.scale.at(layer, self.episode), counted=counted)

    def _optimistic_costs(self) -> Floats:
        """UCRL2 knows c_e(s, a) and sees actions, but its table has none: it bounds the mean cost of each (s, d) from below."""
        task, r, tally = self.task, self.recipe, self._tally
        least = task.env_cost.min(axis=1)
        spread = task.env_cost.max(axis=1) - least
        if not spread.any():
            return np.asarray(self._flat_task.env_cost)
        radius = np.zeros(tally.agent_rows)
        if r.radius is not None:
            steps = steps_before(self.episode, task.horizon)
            constant = cost_constant(steps=steps, rows=tally.agent_rows, delta=r.delta)
            radius = radii(tally.agents.total, constant, scale=r.scale.at("environment", self.episode))
        result = np.empty((task.n_states, tally.n_actions))
        _kernels.lower_costs(tally.agents.pool, task.env_cost, least, spread, radius, result)
        return result


def scramble(number: int) -> int:
    """63 bits that look random (splitmix64): neighbouring seeds and episodes must not have neighbouring ties."""
    z = (number + 0x9E3779B97F4A7C15) % 2**64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return (z ^ (z >> 31)) >> 1


def known_parts(task: Task, recipe: Recipe) -> dict[str, Any]:
    """The tables that are given, to be laid behind the counted rows."""
    parts: dict[str, Any] = {}
    if recipe.known_agents:
        tables = [policy.reshape(-1, task.n_actions) for policy in recipe.known_agents.values()]
        parts["known_agents"] = sp.csr_array(np.concatenate(tables))
    if recipe.known_environment is not None:
        parts["known_environment"] = recipe.known_environment.truth.centre.matrix()
    return parts


def row_maps(task: Task, recipe: Recipe, tally: Tally) -> tuple[Any, Any]:
    """Which row of its table serves which place: the counted one, or the given one behind."""
    agents = np.arange(tally.agent_rows).reshape(-1, task.n_states)
    behind = tally.agent_rows
    for agent, policy in recipe.known_agents.items():
        places = slice(task.slot[agent], task.slot[agent] + task.n_slots[agent])
        agents[places] = behind + np.arange(len(policy) * task.n_states).reshape(-1, task.n_states)
        behind += len(policy) * task.n_states
    rows = tally.environment.rows
    environment = np.arange(rows).reshape(task.n_states, -1)
    if recipe.known_environment is not None:
        environment = rows + recipe.known_environment.truth.row
    return agents, environment


def certain_belief(task: Task) -> Belief:
    """The agents of the flattened problem."""
    slots = int(task.n_slots.sum())
    tables = np.concatenate([policy.reshape(-1, slots) for policy in certain_policies(task)])
    return Belief.of(tables, 0.0, (slots, task.n_states))


# ----------------------------------------------------------------------------------------------------------- recipes


def ucrl2_mc(
    task: Task,
    *,
    delta: float = 0.1,
    scale: Scale | ScaleOf = 1.0,
    known_agents: Mapping[str, ArrayLike] | None = None,
    known_environment: Environment | None = None,
    seed: int = 0,
) -> Learner:
    """UCRL2-MC (Algorithm 1): optimism over separate confidence sets of every agent and of the environment.

    With scale 1 the truth lies in all sets with probability 1 - delta and the regret obeys Theorem 2, if every step costs less than
    1. known_agents: policies that need not be learned, by name. known_environment: likewise.
    """
    owner = "ucrl2_mc"
    recipe = Recipe(
        owner,
        delta=_check.probability(owner, "delta", delta),
        scale=scale_of(owner, scale),
        known_agents=checked_task(owner, task).known_agents(owner, known_agents or {}),
        known_environment=checked_environment(owner, task, known_environment),
    )
    return Learner(task, recipe, seed=seed)


def ucrl2(task: Task, *, delta: float = 0.1, radius: str = "appendix", scale: Scale | ScaleOf = 1.0, seed: int = 0) -> Learner:
    """UCRL2 on the switching problem (Algorithm 2 of the appendix): optimism over p(s' | s, d).

    radius: "appendix", as printed there, or "same-form", that of UCRL2-MC for a table of this size, which is narrower. Which one
    the baseline gets decides how large the gain of UCRL2-MC looks. Of a Scale it takes the environment's part.
    """
    owner = "ucrl2"
    _check.choice(owner, "radius", radius, ("appendix", "same-form"))
    recipe = Recipe(
        f"ucrl2 ({radius})",
        radius="appendix" if radius == "appendix" else "printed",
        delta=_check.probability(owner, "delta", delta),
        scale=scale_of(owner, scale),
        flat=True,
    )
    return Learner(checked_task(owner, task), recipe, seed=seed)


def greedy(
    task: Task,
    *,
    known_agents: Mapping[str, ArrayLike] | None = None,
    known_environment: Environment | None = None,
    seed: int = 0,
) -> Learner:
    """Plans as if the frequencies seen so far were the truth, unseen rows uniform. May settle on the wrong agent for ever."""
    owner = "greedy"
    recipe = Recipe(
        owner,
        radius=None,
        known_agents=checked_task(owner, task).known_agents(owner, known_agents or {}),
        known_environment=checked_environment(owner, task, known_environment),
    )
    return Learner(task, recipe, seed=seed)


def fixed(task: Task, agent: int | str | ArrayLike) -> Learner:
    """One agent (index or name), or one switching policy (L, S, D), in every episode."""
    shape = (checked_task("fixed", task).horizon, task.n_states, task.n_agents)
    if _check.ndim(agent) == 0:
        index = task.agent_index("fixed", "agent", agent)
        return Learner(task, Recipe(task.agents[index], radius=None, policy=np.full(shape, index, dtype=np.int16)))
    policy = checked_policy("fixed", task, np.asarray(agent))
    return Learner(task, Recipe("fixed policy", radius=None, policy=policy))


def oracle(mdp: TwoLayerMDP, *, seed: int = 0) -> Learner:
    """The best switching policy from the first episode on: regret 0."""
    return Learner(mdp.task, Recipe("oracle", radius=None, policy=solve(mdp, seed=seed).policy), seed=seed)


def checked_task(owner: str, task: Any) -> Task:
    if not isinstance(task, Task):
        hint = "a Task, as in mdp.task" if isinstance(task, TwoLayerMDP) else "a Task"
        _check.fail(owner, "task", _check.show(type(task).__name__), hint)
    return task


def checked_environment(owner: str, task: Task, environment: Environment | None) -> Environment | None:
    if environment is None:
        return None
    if not isinstance(environment, Environment):
        _check.fail(owner, "known_environment", _check.show(environment), "an Environment")
    mine, theirs = (environment.n_states, environment.n_actions), (task.n_states, task.n_actions)
    if mine != theirs:
        _check.fail(owner, "(S, A) of known_environment", mine, f"{theirs}, as in the task")
    return environment
