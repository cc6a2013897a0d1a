"""The working form of a learner: counts that grow in place, beliefs, and the current plan."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Policy, for_kernels
from cede._kernels.random_streams import tie_seed
from cede.beliefs.belief import Belief, CostBelief, snapshot
from cede.beliefs.constants import put_radii
from cede.beliefs.extras import of_layer
from cede.beliefs.layer import put_costs
from cede.beliefs.scale import Scale
from cede.learners import compiled as kernels
from cede.learners.arrays import certain_belief, load_counts, new_arrays, radius_sizes, refresh_layer
from cede.learners.baseline import is_kept_to, plan_changed, record_episode
from cede.learners.compiled import GreedyBounds, LearnerArrays
from cede.learners.limits import prices_by_name, update_prices
from cede.learners.promises import TrialEpisodes
from cede.learners.proof import UNDECIDED
from cede.learners.settings import Settings
from cede.learners.state import LearnerState, Sizes
from cede.learners.trials import scheduled_trial
from cede.planning.backup import CHOOSE
from cede.planning.passes import Plan, empty_plan, new_plan, pass_scratch, run_pass, share_pass, thread_scratch
from cede.problem.task import Task
from cede.rows.places import ENVIRONMENT
from cede.rows.working import SharedCounts
from cede.steps.cost import cost_of
from cede.steps.step import Steps


class WorkingLearner:
    """The working form of a learner: counts -> belief -> plan.

    A `Learner` makes it from its stored state at first use, so that unused learners of a large fleet stay small.

    shared: the environment counts of the fleet, if the learner shares them. seed: of ties and samples. scale_at: returns the scales
    of the sets in an episode; by default those of the settings.
    """

    def __init__(
        self,
        task: Task,
        settings: Settings,
        state: LearnerState,
        shared: SharedCounts | None,
        seed: int = 0,
        scale_at: Callable[[int], Scale] | None = None,
    ) -> None:
        self.task, self.settings, self.seed = task, settings, seed
        self.scale_at = scale_at or (lambda episode: settings.scale)
        sizes = Sizes(task, settings)
        self.counts = load_counts(sizes, state, shared)
        self.plan, self.planned, self.stale = plan_of(task, state), state.planned, state.stale
        self._ordinary: tuple[int, Plan] | None = None  # the plan of a trial episode's other sessions, and the episode
        self.sizes = radius_sizes(sizes)
        self._arrays = new_arrays(sizes, self.counts)
        put_state(self._arrays, task, settings, state)
        self.option, self.extras = sizes.option, of_layer(state.extras, "agents")
        if shared is None:
            self.counts.shared.extras = of_layer(state.extras, "environment")

    @property
    def arrays(self) -> LearnerArrays:
        """Return the arrays for the kernels, with the fleet's current table of the environment."""
        self.counts.refresh()
        self._arrays.environment.counts = self.counts.environment
        self._arrays.costs.counts = self.counts.costs.counts
        if self.option is not None:
            self._arrays.agents.expected = self.option.expected("agents", self.extras)
            self._arrays.environment.expected = self.option.expected("environment", self.counts.shared.extras)
        refresh_layer(self._arrays.environment, self.settings, self.task.n_states)
        return self._arrays

    @property
    def episode(self) -> int:
        """Return the number of the episode that is running or comes next."""
        return self.counts.episodes + 1

    def store(self, *, environment: bool) -> LearnerState:
        """Return the stored form. environment: whether to include environment counts."""
        more: dict[str, Any] = {**plan_arrays(self.task, self.plan), **get_state(self.arrays)}
        return LearnerState(
            counts=self.counts.store(environment=environment),
            planned=self.planned,
            stale=self.stale,
            extras={**self.extras, **(self.counts.shared.extras if environment else {})},
            **more,
        )

    # ------------------------------------------------------------------------------------------------- steps -> counts

    def count_episode(self, steps: Steps | None) -> None:
        """Count an episode and end it, without planning. steps: None if they were counted already."""
        if steps is not None:
            self.counts.add_steps(steps)
            update_prices(self.task, self.arrays, steps.agent)
            if self.arrays.spent.size and np.isfinite(cost := cost_of(self.task, steps)):
                self.arrays.spent += (1.0, cost)
            record_episode(self.task, self.arrays, None if self.plan is None else self.plan.policy, steps)
        self.arrays.baseline.record["decided"] = UNDECIDED  # empty if there is no baseline
        self.counts.end_episode()
        self.refit()
        self.stale = True
        if self.settings.planning == "greedy":  # keeps no plan
            self.plan, self.planned = None, 0

    def count_step(self, step: Steps) -> None:
        """Count one step of a run without horizon, without planning."""
        self.counts.add_steps(step)
        if self.arrays.limits.taken.size:
            self.arrays.limits.taken[self.task.acting[int(step.agent[0])]] += 1
        self.counts.end_episode()
        self.stale = True

    def count_late_costs(self, steps: Steps) -> None:
        """Count costs of steps that were counted without them; NaN: none."""
        self.counts.add_costs(steps.places, [steps.cost, steps.enter_cost, *[np.full(len(steps), np.nan)] * 2])
        self.stale = True

    def refit(self) -> None:
        """Fit the models of the option that are due, after an episode was counted."""
        if self.option is not None:
            agents, shared = self.counts.agents, self.counts.shared
            self.extras = self.option.fit("agents", self.extras, lambda: agents.seen.matrix(agents.counted), self.counts.episodes)
            shared.extras = self.option.fit(
                "environment", shared.extras, lambda: shared.store(self.task)[ENVIRONMENT].matrix, shared.episodes
            )

    # ------------------------------------------------------------------------------------------------- counts -> belief -> plan

    def put_radii(self) -> LearnerArrays:
        """Write the constants and scales of this episode's sets into the arrays; return the arrays."""
        arrays = self.arrays
        counted = self.counts.shared.episodes, self.counts.agents_episodes
        put_radii(arrays.radii, self.scale_at(self.episode), self.sizes, self.episode, *counted)
        return arrays

    def tie_seed(self) -> int:
        """Return the seed of ties in this episode.

        It depends on the learner's seed and the episode alone, so equal counts in the same episode give the same plan.
        """
        return int(tie_seed(self.seed, self.episode))

    @property
    def is_due(self) -> bool:
        """Return whether a new plan must be made before the next choice."""
        return self.plan is None or (self.stale and bool(kernels.is_due(self.arrays, self.episode, self.planned)))

    def make_plan(self, *, trial: bool = True) -> Plan:
        """Return a new plan for the current episode, from the counts or the fixed policy. The current plan is not replaced.

        trial: False to plan as if the episode were no trial episode.
        """
        if self.settings.policy is not None:
            return Plan(self.settings.policy.reshape(self.task.policy_shape), no_value(self.task))
        policy, value = empty_plan(self.task)
        if self.task.horizon is None:  # begin where the last plan ended
            value[0] = 0.0 if self.plan is None else self.plan.value
            value[1] = 0.0
        arrays = self.put_radii()
        make_plan(arrays, policy, value, self.tie_seed(), trial)
        return new_plan(self.task, policy, value, arrays.endless.gain, arrays.endless.error)

    def use_plan(self, plan: Plan) -> None:
        """Replace the current plan."""
        if self.settings.policy is None:
            kernels.finish_plan(self.arrays)
        self.plan, self.planned, self.stale = plan, self.episode, False

    def plan_changed(self, running: bool) -> None:
        """Update the record of the baseline after the plan was replaced. running: whether an episode is running."""
        plan_changed(self.task, self.arrays, running)

    def visit(self, t: int, state: int) -> Policy:
        """Back up one state, for greedy planning, and return the agent to put in control there for each previous agent, (D,)."""
        arrays, (policy, _) = self.put_radii(), empty_plan(self.task)
        kernels.visit(arrays, policy, t, state, self.tie_seed(), *self.scratch(arrays))
        chosen: Policy = policy[t, state]
        return chosen

    def may_deviate(self, policy: Policy) -> bool:
        """Return whether this policy provably keeps the promise about the baseline. It is decided once for each episode."""
        arrays = self.put_radii()
        most = float(self.task.layout.left[0]) * self.task.ends_of_step_cost[1]
        return bool(kernels.may_deviate(arrays, for_kernels(policy), self.task.start_agent, most, *self.scratch(arrays)))

    def scratch(self, arrays: LearnerArrays) -> tuple[Any, Any]:
        """Return this thread's scratch arrays: for a pass, and for a thread of it."""
        task, n_actions = self.task, arrays.environment.belief.row.shape[1]
        shape = (task.plan_steps, task.n_states, task.n_agents)
        return pass_scratch(arrays.model, shape), thread_scratch(task.n_states, n_actions, task.n_agents)

    def in_force(self, own: Plan) -> Plan:
        """Return the plan of this episode: the learner's own, or the baseline unless deviating is provably safe."""
        baseline = self.settings.baseline
        return own if baseline is None or self.may_deviate(own.policy) else Plan(baseline.policy, no_value(self.task))

    def plan_of_episode(self, number: int, own: Plan, approved: int | None = None) -> tuple[Plan, str]:
        """Return the plan in force in an episode, and the reason of its choices, a word.

        number: of the episode among all that began: a trial episode is that of one session alone. own: the current plan. approved:
        the member who is tried in it, by `approve_trial`; None: the schedule decides.
        """
        if approved is not None:
            return self.trial_of(approved, own), "audition"
        if self.settings.trials is not None and self.settings.baseline is None:
            place = kernels.trial_member.py_func(self.arrays, number)
            if place < 0:
                return self.without_trial(own), "plan"
            return own if number == self.planned else self.trial_of(int(self.arrays.tried[place]), own), "audition"
        plan = self.in_force(own)
        kept_to = is_kept_to(self._arrays.baseline.record.view(np.float64))
        return plan, "baseline" if kept_to else "plan" if self.settings.policy is None else "fixed"

    def is_worth_trying(self, name: str) -> bool:
        """Return whether the known costs of a member alone are at most the mean cost of an episode so far."""
        spent, member = self.arrays.spent, self.task.members.index(name)
        return not spent.size or spent[0] == 0 or kernels.least_alone.py_func(self.arrays, member) <= spent[1] / spent[0]

    def without_trial(self, own: Plan) -> Plan:
        """Return the plan of an episode that is no trial episode. own: the current plan."""
        if scheduled_trial.py_func(self.arrays.since, self.planned) < 0:
            return own
        if self._ordinary is None or self._ordinary[0] != self.planned:
            self._ordinary = self.planned, self.make_plan(trial=False)
        return self._ordinary[1]

    def trial_of(self, member: int, own: Plan) -> Plan:
        """Return the plan of a trial episode of a member, of unknown value. own: the current plan."""
        trials, ways = self.settings.trials or TrialEpisodes(), self.task.ways_to(member).astype(np.int16)
        policy, steps = self.without_trial(own).policy.copy(), slice(0, trials.steps)
        states: Any = list(trials.states) or slice(None)
        policy[steps, states] = np.broadcast_to(ways, policy.shape[1:])[states]
        return Plan(policy, no_value(self.task))

    # ------------------------------------------------------------------------------------------------- what it believes

    def beliefs(self) -> tuple[Belief, Belief]:
        """Return copies of the confidence sets of the agents and of the environment, from the current counts."""
        arrays = self.put_radii()
        kernels.believe(arrays, self.tie_seed())
        agents = certain_belief(self.task) if self.settings.flat else snapshot(arrays.agents.belief)
        return agents, snapshot(arrays.environment.belief)

    def costs(self) -> CostBelief:
        """Return the belief about costs: known costs, and intervals for learned costs."""
        task, arrays = self.task, self.arrays
        if not arrays.costs.least.size:
            return CostBelief(task.env_cost, task.env_cost, task.env_cost, *[task.enter_cost] * 3)
        if self.settings.flat:
            check.fail("Learner.costs", "learner", self.settings.name, "one that tells agents and environment apart")
        self.put_radii()
        kernels.believe(arrays, self.tie_seed())
        layer = arrays.costs
        ends = [
            believed
            for name, place in (
                ("env_cost", layer.counts.place),
                ("enter_cost", layer.enter_place),
                ("control_cost", layer.control_place),
                ("switch_cost", layer.switch_place),
            )
            for believed in believed_costs(getattr(task, name), place, (layer.low, layer.high, layer.mean))
        ]
        return CostBelief(*ends[: 12 if task.learns_team_costs else 6])

    def prices(self) -> dict[str, float]:
        """Return the price of limits per step of control, by member; empty without limits."""
        return prices_by_name(self.task, self.arrays)


def believed_costs(costs: Any, place: NDArray[np.int64], believed: tuple[Floats, ...]) -> list[Any]:
    """Return costs with believed ones where they are learned, once for each of `believed`, (rows,); None if there are no costs.

    costs: NaN where they are learned. place: the row of each, as in `CostPlaces`.
    """
    if costs is None or not place.size:
        return [costs] * len(believed)
    row = place.reshape(costs.shape)
    return [np.where(np.isnan(costs), rows[row], costs) for rows in believed]


def no_value(task: Task) -> Floats:
    """Return the value of a plan of unknown cost: NaN, (L + 1, S, D), or (S, D) without horizon; a view of one number."""
    shape = task.policy_shape
    return np.broadcast_to(np.nan, shape if task.horizon is None else (shape[0] + 1, *shape[1:]))


# ------------------------------------------------------------------------------------------------- stored <-> working

# The arrays of the kernels that hold the state beside counts and plan (state.py), by name.
KEPT: dict[str, Callable[[LearnerArrays], NDArray[Any]]] = {
    "agents_planned_visits": lambda arrays: arrays.agents.planned_visits,
    "environment_planned_visits": lambda arrays: arrays.environment.planned_visits,
    "bounds": lambda arrays: arrays.greedy.values,
    "agents_recent": lambda arrays: arrays.agents.counts.forgetting.recent,
    "environment_recent": lambda arrays: arrays.environment.counts.forgetting.recent,
    "costs_recent_row": lambda arrays: arrays.costs.recent_row,
    "costs_recent_part": lambda arrays: arrays.costs.recent_part,
    "taken": lambda arrays: arrays.limits.taken,
    "spent": lambda arrays: arrays.spent,
    "prices": lambda arrays: arrays.limits.prices.view(np.float64),
    "record": lambda arrays: arrays.baseline.record.view(np.float64),
}


def put_state(arrays: LearnerArrays, task: Task, settings: Settings, state: LearnerState) -> None:
    """Copy the state, without counts and plan, into the arrays of a learner; empty arrays stand for start values."""
    if settings.planning == "greedy":
        has_bounds = state.bounds.size and not np.isnan(state.bounds.flat[0])
        put_bounds(arrays.greedy, task, state.bounds.copy() if has_bounds else optimistic_start(arrays, task))
    for name, place in KEPT.items():
        array = getattr(state, name)
        if array.size and name != "bounds":
            place(arrays)[...] = array


def get_state(arrays: LearnerArrays) -> dict[str, NDArray[Any]]:
    """Return the fields of `LearnerState` beside counts and plan."""
    return {name: place(arrays).copy() for name, place in KEPT.items()}


def put_bounds(greedy: GreedyBounds, task: Task, values: Floats) -> None:
    """Set the values of greedy planning, (L + 1, S, D), the values with costs of arriving, and their minima over states."""
    greedy.values, greedy.arrival = values, arrivals(task, values)
    greedy.least = greedy.arrival.min(axis=1)
    greedy.least_at = greedy.arrival.argmin(axis=1).astype(np.int64)


def arrivals(task: Task, values: Floats) -> Floats:
    """Return enter_cost(s) + discount * values, (..., S, D); the same array if that is equal."""
    if task.enter_cost is None and task.discount is None:
        return values
    enter = 0.0 if task.enter_cost is None else task.enter_cost[:, None]
    result: Floats = enter + task.layout.factor * values
    return result


def optimistic_start(arrays: LearnerArrays, task: Task) -> Floats:
    """Return the first values of greedy planning, (L + 1, S, D): the least cost if all unknown rows and costs are at their best."""
    for layer in (arrays.environment,) if arrays.flat else (arrays.agents, arrays.environment):
        layer.belief.width[layer.case < layer.counts.counted] = 2.0
    if arrays.costs.least.size:  # unknown costs are at their least
        put_costs(arrays.costs, arrays.model.problem, arrays.limits.control_cost, arrays.costs.least, 1.0)
    policy, bounds = empty_plan(task)
    run_pass(arrays.model, CHOOSE, policy, bounds, 0)
    return bounds


def make_plan(arrays: LearnerArrays, policy: Policy, value: Floats, seed: int, trial: bool = True) -> None:
    """Make the plan of an episode from the counts, with as many threads as pay off.

    Followed by the kernel `finish_plan`, it is equal to the kernel `plan_step`.

    policy: (L, S, D), written. value: (L + 1, S, D), written; without horizon (2, S, D), and the search for the fixed point starts
    from value[0]. seed: of ties and samples. trial: as for `WorkingLearner.make_plan`.
    """
    scratch = pass_scratch(arrays.model, policy.shape)
    kernels.prepare_plan(arrays, policy, value, seed, scratch)
    if not trial:
        arrays.driving = -1
    if not arrays.model.problem.left.size:
        n_states, n_agents = policy.shape[1:]
        thread = thread_scratch(n_states, arrays.environment.belief.row.shape[1], n_agents)
        kernels.plan_endless(arrays, policy, value, seed, scratch, thread)
        return
    share_pass(
        arrays.model,
        len(policy),
        scratch,
        lambda thread, phase: kernels.plan_pass(arrays, policy, value, seed, scratch, thread, phase),
    )
    if arrays.driving >= 0:
        n_states, n_agents = policy.shape[1:]
        thread = thread_scratch(n_states, arrays.environment.belief.row.shape[1], n_agents)
        kernels.finish_trial(arrays, policy, value, scratch, thread)


def plan_of(task: Task, state: LearnerState) -> Plan | None:
    """Return the plan of a state; None if there is none."""
    numbers = state.found.tolist() if state.found.size else (0.0, 0.0)
    return new_plan(task, state.policy, state.value, *numbers) if state.has_plan else None


def plan_arrays(task: Task, plan: Plan | None) -> dict[str, NDArray[Any]]:
    """Return a plan as fields of a state, in the form that kernels read; empty without a plan, or if its value is unknown."""
    if plan is None or np.isnan(plan.value.flat[0]):
        return {}
    if task.horizon is not None:
        return {"policy": plan.policy, "value": plan.value}
    value = np.stack([plan.value, np.zeros_like(plan.value)])
    gain_and_error = np.array([plan.gain or 0.0, plan.error])
    return {"policy": plan.policy[None], "value": value, "found": gain_and_error}
