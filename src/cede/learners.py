"""Learners: one class, and recipes that put its parts together.

ucrl2_mc   the paper's Algorithm 1: separate confidence sets for the agents and the environment
ucrl2      the baseline of the appendix: one confidence set for p(s' | s, d), blind to actions
greedy     takes what it has seen for the truth (no confidence sets, no guarantee)
fixed      one agent, or one policy, always
oracle     the best policy, for comparison: it alone is told the truth
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede import __version__, _check, _kernels
from cede._check import Floats
from cede._kernels import CHUNK, Ledger, Mind, Radii, Run, Steps, World
from cede.belief import Belief, Scale, ScaleOf, scale_of
from cede.counts import Counts, EnvironmentTally, Episode, Tally, checked_episode
from cede.model import Environment, Task, TwoLayerMDP
from cede.planning import Plan, Policy, checked_policy, empty_plan, hands_for, room_for, run_pass, solve, threads_for
from cede.recipe import (
    Planning,
    Recipe,
    Replan,
    certain_belief,
    checked_environment,
    checked_planning,
    checked_task,
    known_parts,
    mind_of,
    row_maps,
    sizes_of,
)

MOST_SEED = 2**31 - 1


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
        self._planned = 0  # the episode for which it was made, 0: none
        self._stale = False  # has something been counted since it was asked whether a new plan is due?
        self._rows = row_maps(task, recipe, self._tally)
        self._sizes = sizes_of(task, recipe, self._tally)
        self._kept: Mind | None = None

    # ------------------------------------------------------------------------------------------------- in a control loop

    def choose(self, t: int, state: int, prev_agent: int) -> int:
        """The agent to put in control at time t, when prev_agent was in control before."""
        task = self.task
        t = _check.index("choose", "t", t, task.horizon)
        state = _check.index("choose", "state", state, task.n_states)
        prev_agent = _check.index("choose", "prev_agent", prev_agent, task.n_agents)
        if self.recipe.planning == "greedy":
            return int(self._visit(t, state)[prev_agent])
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

    def end_episode(self, *, replan: bool | None = None) -> None:
        """Count what was seen and plan again if the learner's rule (`replan=` of its recipe) says so; or, told so, in any case
        (True) or not at all (False); greedy planning keeps no plan. An episode may end before the horizon.
        """
        for layer in ("agents", "environment"):
            self.recipe.scale.at(layer, self.episode + 1)  # a schedule that fails must fail before anything is counted
        self.count_episode()
        if replan:
            self.replan()
        elif replan is False:
            self._stale = False
        elif self.recipe.planning == "full":
            self._plan = self.plan

    def count_episode(self) -> None:
        """`end_episode` without planning: whether a plan is due is asked when it is needed, as in the rounds of a fleet."""
        if self._steps:
            self._tally.add(*np.array(self._steps, dtype=np.int64).T.copy())
            self._steps = []
        if self._episode is not None:
            self._tally.add_episode(self._episode)
            self._episode = None
        self._tally.end_episode()
        self._stale = True

    def drop_episode(self) -> None:
        """Forget what was observed of the running episode."""
        self._steps, self._episode = [], None

    def replan(self) -> None:
        """Plan anew from all that was counted."""
        if self.recipe.policy is None:
            self._plan = self._make_plan()
            self._stale = False

    def observe_episode(self, episode: Episode) -> None:
        """All steps of an episode at once; they count when `end_episode` is called."""
        if self.observed:
            _check.fail("observe_episode", "the number of steps observed already", self.observed, "0")
        self._episode = checked_episode("observe_episode", self.task, episode)

    @property
    def observed(self) -> int:
        """Steps of the running episode that were observed; they count when it ends."""
        return len(self._steps) if self._episode is None else len(self._episode.actions)

    @property
    def environment_tally(self) -> EnvironmentTally | None:
        """What was seen of the environment, to be shared; None if this learner learns nothing that others could use."""
        shareable = not self.recipe.flat and self.recipe.known_environment is None and self.recipe.policy is None
        return self._tally.environment if shareable else None

    def share_environment(self, other: "Learner") -> None:
        """From now on count the environment together with another learner, and plan from what both have seen."""
        mine, theirs = self.environment_tally, other.environment_tally
        if mine is None or theirs is None:
            _check.fail("share_environment", "what a learner learns of the environment", "nothing that others could use", "shared")
        shapes = [(tally.rows, tally.table.n_columns) for tally in (mine, theirs)]
        if shapes[0] != shapes[1]:
            _check.fail("share_environment", "the shape of the other's table", shapes[1], f"{shapes[0]}, as of this one's")
        self._tally.environment = theirs
        self._plan, self._planned = None, 0

    # ------------------------------------------------------------------------------------------------- what it knows

    @property
    def plan(self) -> Plan:
        """The plan of the current episode. With greedy planning: what would be chosen everywhere, as things stand when first asked
        in this episode.
        """
        if self._plan is None or (self._stale and _kernels.is_due(self._mind(), self.episode, self._planned)):
            self._plan = self._make_plan()
        self._stale = False
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
        mind = self._mind()
        _kernels.believe(mind, self._radii())
        certain = certain_belief(self.task) if self.recipe.flat else Belief(self._tally.agents, mind.agents_width, self._rows[0])
        return certain.copy(), Belief(self._tally.environment.table, mind.environment_width, self._rows[1]).copy()

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
            "planning": r.planning,
            "replan": r.replan,
            "seed": self.seed,
            "cede": __version__,
        }

    # ------------------------------------------------------------------------------------------------- counts -> belief -> plan

    def _make_plan(self) -> Plan:
        r, task = self.recipe, self.task
        if r.policy is not None:
            shape = (task.horizon + 1, task.n_states, task.n_agents)
            plan = Plan(r.policy, np.broadcast_to(np.nan, shape))
        else:
            mind = self._mind()
            _kernels.believe(mind, self._radii())
            policy, value = empty_plan(task)
            mode, source = (_kernels.CHOOSE, value) if r.planning == "full" else (_kernels.RAISE, mind.bounds)
            run_pass(mind.problem, mind.agents, mind.environment, mode, policy, value, self._tie_seed(), source)
            _kernels.note_visits(mind)
            plan = Plan(policy, value)
        self._planned = self.episode
        return plan

    def _visit(self, t: int, state: int) -> Policy:
        """Greedy planning: back up one state. The agents to put in control there, by previous agent."""
        mind, task = self._mind(), self.task
        policy, _ = empty_plan(task)
        room = room_for(mind.problem, policy.shape, mind.agents, mind.environment)
        hands = hands_for(task.n_states, mind.environment.row.shape[1], task.n_agents)
        _kernels.visit_once(mind, self._radii(), policy, t, state, self._tie_seed(), room, hands)
        chosen: Policy = policy[t, state]
        return chosen

    def play(self, world: World, luck: Floats, seat: "Seat", ledger: Ledger, *, counting: bool, evaluate_every: int) -> int:
        """Play simulated episodes in compiled code, as many as there is luck for, or fewer if the counts need more room.

        How many were played. With counting=False there is one, and it counts when `count_episode` is called.
        """
        mind, r = self._mind(), self.recipe
        if r.policy is None and r.planning == "full" and threads_for(mind.environment, self.task.horizon) > 1:
            self._plan, luck = self.plan, luck[:1]  # several threads work on one plan: outside of the compiled loop
        numbers = self._radii_ahead(len(luck))
        policy, value = self._plan_to_change(mind)
        fresh = r.planning == "full" and self._plan is not None and not self._stale
        room = room_for(mind.problem, policy.shape, mind.agents, mind.environment)
        true_room = room_for(world.problem, policy.shape, world.agents, world.environment)
        actions = max(mind.environment.row.shape[1], self.task.n_actions)
        hands = hands_for(self.task.n_states, actions, self.task.n_agents)
        run, luck = seat.run, luck[: len(numbers.cost)]
        run.played[0], run.planned[0], run.counted[0], run.wanted[:] = 0, self._planned, 0, 0
        try:
            now = (numbers, self.seed, self.episode, fresh, luck, counting, evaluate_every)
            evaluation = (seat.policy, seat.value, true_room)
            _kernels.play_episodes(mind, world, *now, policy, value, room, *evaluation, hands, seat.steps, ledger, run)
        finally:  # an interrupt comes when the kernel is done: what it did must be in the books
            try:
                played = self._book(seat, policy, value, counting)
            except BaseException:  # or it comes in here, and the book-keeping goes on where it was
                self._book(seat, policy, value, counting)
                raise
        return played

    def _book(self, seat: "Seat", policy: Policy, value: Floats, counting: bool) -> int:
        """Take over what a run of episodes did: how many. May be called again if it was interrupted."""
        run, steps, tally = seat.run, seat.steps, self._tally
        if self.recipe.planning == "greedy":  # the policy was made where it was needed, and for this episode
            self._plan, self._planned = None, 0
        elif self.recipe.policy is None and run.planned[0]:
            self._plan, self._planned = Plan(policy, value), int(run.planned[0])
        played = int(run.played[0])
        if played == 0:
            return 0
        last = Episode(steps.states, steps.who[:-1], steps.who[1:], steps.actions, steps.costs)
        if counting:
            tally.make_room(*run.wanted.tolist())
            tally.add_episode(last, run.counted)
            self._stale = True
            tally.episodes += played  # from here on no call, so no interrupt, until it is written down
            tally.environment.episodes += played
        else:
            self._episode = last
        run.played[0] = 0
        return played

    def _plan_to_change(self, mind: Mind) -> tuple[Policy, Floats]:
        """Arrays that hold the current plan, and may be overwritten by the next: a plan that was handed out stays as it is."""
        r, plan = self.recipe, self._plan
        if r.policy is not None:
            self._planned = self._planned or self.episode
            return unharmed(self.task, r.policy), np.empty((0, 0, 0))
        if plan is None or r.planning == "greedy" or (self._stale and mind.replan == 1):  # there will be a new one at once
            self._plan, self._planned = None, 0
            return empty_plan(self.task)
        return unharmed(self.task, plan.policy).copy(), plan.value.copy()

    def _tie_seed(self) -> int:
        """Ties depend on the seed and the episode alone: from the same counts, in the same episode, comes the same full plan."""
        return int(_kernels.tie_seed(self.seed, self.episode))

    def _radii(self) -> Radii:
        """The numbers behind the radii of this episode."""
        return Radii(*(float(array[0]) for array in self._radii_ahead(1)))

    def _radii_ahead(self, n: int) -> Radii:
        """Those of the next n episodes, as arrays; of fewer, but at least one, if the scale of a later one fails."""
        scales = [self.recipe.scale.ahead(layer, self.episode, n) for layer in ("agents", "environment")]
        n = min(len(scale) for scale in scales)
        result = Radii(np.empty(n), np.empty(n), np.empty(n), *(scale[:n] for scale in scales))
        _kernels.constants_ahead(self._sizes, self.episode, self._tally.environment.episodes, result)
        return result

    def __getstate__(self) -> dict[str, Any]:
        """For copies: the arrays of the kernels look at one another, which copying would undo. Only what is state goes along."""
        kept = None if self._kept is None else {name: getattr(self._kept, name) for name in STATE}
        return {**self.__dict__, "_kept": kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        kept, self._kept = state["_kept"], None
        if kept is not None:
            self._kept = mind_of(self.task, self.recipe, self._tally, self._rows, None)._replace(**kept)

    def _mind(self) -> Mind:
        """The arrays for the kernels: made once, and again when a table of counts had to move."""
        agents, environment, kept = self._tally.agents, self._tally.environment.table, self._kept
        if kept is None or kept.seen_agents.column is not agents.column or kept.seen_environment.column is not environment.column:
            self._kept = kept = mind_of(self.task, self.recipe, self._tally, self._rows, kept)
        return kept


STATE = ("planned_agents", "planned_environment", "bounds", "least_bound", "least_at")  # of a Mind, beside the counts


def unharmed(task: Task, policy: Policy) -> Policy:
    """A policy that was in other hands, before kernels trust it again."""
    if policy.min() < 0 or policy.max() >= task.n_agents:
        checked_policy("the learner's plan", task, policy)
    return policy


class Seat:
    """A learner's place in a simulation: the policy that was evaluated last, and the episode being played."""

    def __init__(self, task: Task) -> None:
        self.policy, self.value = empty_plan(task)
        zeros = [np.zeros(n, dtype=np.int64) for n in (1, 1, 1, 1, 2)]
        self.run = Run(*zeros)
        self.steps = Steps(
            states=np.empty(task.horizon + 1, dtype=np.int64),
            who=np.empty(task.horizon + 1, dtype=np.int64),
            actions=np.empty(task.horizon, dtype=np.int64),
            costs=np.empty(task.horizon),
            times=np.arange(task.horizon),
            rows=np.empty((2, CHUNK), dtype=np.int64),
        )


# ----------------------------------------------------------------------------------------------------------- recipes


def ucrl2_mc(
    task: Task,
    *,
    delta: float = 0.1,
    scale: Scale | ScaleOf = 1.0,
    known_agents: Mapping[str, ArrayLike] | None = None,
    known_environment: Environment | None = None,
    planning: Planning = "full",
    replan: Replan = "every",
    seed: int = 0,
) -> Learner:
    """UCRL2-MC (Algorithm 1): optimism over separate confidence sets of every agent and of the environment.

    With scale 1 the truth lies in all sets with probability 1 - delta and the regret obeys Theorem 2, if every step costs less than
    1. known_agents: policies that need not be learned, by name. known_environment: likewise.

    planning="greedy" backs up only the states that are visited, from values that are only ever raised (Efroni et al. 2019): far
    cheaper, and what it costs in regret is in docs/speed.md. replan: plan anew for "every" episode, when some count has
    doubled since the last plan ("doubling", the rule of UCRL2), or for every n-th episode.
    """
    owner = "ucrl2_mc"
    recipe = Recipe(
        owner,
        delta=_check.probability(owner, "delta", delta),
        scale=scale_of(owner, scale),
        known_agents=checked_task(owner, task).known_agents(owner, known_agents or {}),
        known_environment=checked_environment(owner, task, known_environment),
        **checked_planning(owner, planning, replan),
    )
    return Learner(task, recipe, seed=seed)


def ucrl2(
    task: Task,
    *,
    delta: float = 0.1,
    radius: str = "appendix",
    scale: Scale | ScaleOf = 1.0,
    planning: Planning = "full",
    replan: Replan = "every",
    seed: int = 0,
) -> Learner:
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
        **checked_planning(owner, planning, replan),
    )
    return Learner(checked_task(owner, task), recipe, seed=seed)


def greedy(
    task: Task,
    *,
    known_agents: Mapping[str, ArrayLike] | None = None,
    known_environment: Environment | None = None,
    planning: Planning = "full",
    replan: Replan = "every",
    seed: int = 0,
) -> Learner:
    """Plans as if the frequencies seen so far were the truth, unseen rows uniform. May settle on the wrong agent for ever."""
    owner = "greedy"
    recipe = Recipe(
        owner,
        radius=None,
        known_agents=checked_task(owner, task).known_agents(owner, known_agents or {}),
        known_environment=checked_environment(owner, task, known_environment),
        **checked_planning(owner, planning, replan),
    )
    return Learner(task, recipe, seed=seed)


def fixed(task: Task, agent: int | str | ArrayLike) -> Learner:
    """One agent (index or name), or one switching policy (L, S, D), in every episode."""
    shape = (checked_task("fixed", task).horizon, task.n_states, task.n_agents)
    if _check.ndim(agent) == 0:
        index = task.agent_index("fixed", "agent", agent)
        return Learner(task, Recipe(task.agents[index], radius=None, policy=np.full(shape, index, dtype=np.int16)))
    policy = checked_policy("fixed", task, np.asarray(agent)).copy()
    return Learner(task, Recipe("fixed policy", radius=None, policy=policy))


def oracle(mdp: TwoLayerMDP, *, seed: int = 0) -> Learner:
    """The best switching policy from the first episode on: regret 0."""
    return Learner(mdp.task, Recipe("oracle", radius=None, policy=solve(mdp, seed=seed).policy), seed=seed)
