"""What a learner was told: one frozen dataclass that checks itself.

Whatever must know all settings (files, fingerprints, which teams are alike, what is shown to users) iterates over the fields of
`Settings`. A new option is a field here and the code that uses it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from cede._base import archive, check
from cede._base.arrays import Floats, Policy
from cede._base.remade import Remade
from cede.beliefs.kind import BeliefKind, Use
from cede.beliefs.registry import BY_NAME, SETS, sets_that_allow
from cede.beliefs.scale import Scale, StepDown
from cede.learners.baseline import Baseline
from cede.planning.control_shares import limits_of, limits_or_none
from cede.problem.features import Features
from cede.problem.model import Environment, TwoLayerMDP
from cede.problem.structure import Outcomes, Structure, checked_structure
from cede.problem.task import Task, checked_switching_policy
from cede.rows.fading import Forget, HalfLife, Window

Replan = Literal["every", "doubling"] | int | None
STEPS_BETWEEN_PLANS = 1000  # by default where there is no horizon, and prices of limits must move
Planning = Literal["full", "greedy"]
MOST_EPISODES = 2**62
LEAST_PRIOR, MOST_PRIOR = 1e-6, 1e6

KINDS: dict[str, Any] = {  # types of the fields that are not numbers or strings
    "scale": Scale,
    "known_agents": Mapping,
    "known_environment": Environment | None,
    "structure": Structure | None,
    "features": Features | None,
    "forget": Mapping,
    "limits": tuple | None,
    "baseline": Baseline | None,
    "policy": np.ndarray | None,
}
OWN = {"own": True}  # marks fields that are a team's own: teams that differ only in these may run in one group


@dataclass(frozen=True, eq=False)
class Settings(Remade):
    """All that a learner was told, beside its task and seed. The functions of algorithms.py make it from their arguments.

    Fields with the metadata OWN may differ between teams that run in one group.
    """

    name: str = field(metadata=OWN)
    radius: str | None = "printed"  # kind of the confidence sets, see beliefs/registry.py; None: there are none (width 0)
    agents_radius: str | None = None  # kind of the agents' sets; None: the same
    prior: float = 0.0  # pseudo-counts of a row, if tables are sampled; 0: they are not
    delta: float = 0.1
    scale: Scale = field(default_factory=Scale)
    flat: bool = False  # learn p(s' | s, d) instead of the two layers
    known_agents: Mapping[int, Floats] = field(default_factory=dict)  # index in task.tables -> policy, (slots, S, A)
    known_environment: Environment | None = None
    structure: Structure | None = None  # what is declared of the layers that are learned
    features: Features | None = None  # of the states, from which priors are made where tables are sampled
    forget: Mapping[str, Forget] = field(default_factory=dict)  # by name in task.tables; who is not there is not forgotten
    forget_environment: Forget | None = None
    limits: tuple[Floats, Floats] | None = None  # (members,) each: the least and the most share of the steps
    baseline: Baseline | None = None  # what the learner must never be much worse than
    policy: Policy | None = field(default=None, metadata=OWN)  # (L, S, D) used in every episode; None: the learner plans
    planning: Planning = "full"  # make a whole plan, or back up only the states that are visited
    auditions: bool = False  # every member has control in whole episodes, at first and then ever more seldom
    replan: Replan = "every"  # new plan for every episode; when a count has doubled; or every so many episodes (or steps)

    def __post_init__(self) -> None:
        owner = check.name("Settings", "name", self.name).split(" (")[0]
        for name in ("radius", "agents_radius"):
            check.choice(owner, name, getattr(self, name), (*(kind.name for kind in SETS), None))
        for name, kind in KINDS.items():
            if not isinstance(getattr(self, name), kind):
                check.fail(owner, name, check.show(getattr(self, name)), f"a {getattr(kind, '__name__', kind)}")
        object.__setattr__(self, "known_agents", {i: checked_form(owner, i, p, 3) for i, p in self.known_agents.items()})
        if self.limits is not None:
            if len(self.limits) != 2:
                check.fail(owner, "limits", check.show(self.limits), "the least and the most shares")
            object.__setattr__(self, "limits", tuple(checked_form(owner, "limits", end, 1) for end in self.limits))
        if self.policy is not None:
            object.__setattr__(self, "policy", checked_form(owner, "policy", self.policy, 3, np.int16))
        check.probability(owner, "delta", self.delta)
        for name in ("flat", "auditions"):
            check.choice(owner, name, getattr(self, name), (True, False))
        if check.number(owner, "prior", self.prior) != 0.0 and not LEAST_PRIOR <= self.prior <= MOST_PRIOR:
            check.fail(owner, "prior", self.prior, f"from {LEAST_PRIOR:g} to {MOST_PRIOR:g}")
        if self.replan is None:
            object.__setattr__(self, "replan", "every")
        check_planning(owner, self.planning, self.replan)
        self._check_forgetting(owner)
        self._check_limits(owner)
        self._check_baseline(owner)
        self._check_beliefs(owner)
        self._check_auditions(owner)
        self._check_features(owner)
        if self.flat and (self.structure is not None or self.known_agents or self.known_environment is not None):
            check.fail(owner, "what is known or declared", "given", "left out with one table for agents and environment")

    def _check_auditions(self, owner: str) -> None:
        """Check that nothing is promised that an audition would break, and that there are whole episodes."""
        if self.auditions and (self.limits is not None or self.baseline is not None):
            check.fail(owner, "auditions", True, "False with limits or a baseline: they would not be kept to")
        if self.auditions and (self.planning == "greedy" or self.policy is not None or self.flat):
            check.fail(owner, "auditions", True, "False with greedy planning, with one policy, or with one table for all")

    def _check_features(self, owner: str) -> None:
        """Check that there are priors that features could change, and counts that models can be fitted to."""
        if self.features is not None and not self.prior:
            check.fail(owner, "features", "given", "left out but for posterior sampling: only it has priors")
        if self.features is not None and self.forgets:
            check.fail(owner, "features", "given", "left out with forget: models are fitted to counts that do not fade")

    def _check_beliefs(self, owner: str) -> None:
        """Check that the kinds of belief are for this learner: one table or two layers, and its way of planning."""
        for kind in self.kinds if self.planning == "greedy" else ():
            if "greedy planning" not in kind.allows:
                check.fail(owner, "planning", "'greedy'", f"'full' with {kind.name} sets: their size follows from all rows")
        sampled, sets = self.prior > 0, self.radius is not None
        if sampled and (sets or self.flat or self.planning == "greedy"):
            check.fail(owner, "prior", self.prior, "0 with confidence sets, with one table for all, or with greedy planning")
        if (not self.flat and not self.allows("two layers")) or (self.agents_radius and not sets):
            check.fail(owner, "radius", f"{self.radius!r} and {self.agents_radius!r}", "sets that this learner can have")
        if self.flat and (not sets or not self.allows("one table") or self.agents_radius is not None):
            names = " or ".join(map(repr, sets_that_allow("one table")))
            check.fail(owner, "radius", repr(self.radius), f"{names} with one table for agents and environment")
        if self.flat and (self.limits is not None or self.forgets):
            check.fail(owner, "limits and forgetting", "given", "left out with one table for agents and environment")

    def _check_forgetting(self, owner: str) -> None:
        """Check the rules to forget, and that the other settings allow forgetting."""
        for name, rule in (*self.forget.items(), ("the environment", self.forget_environment)):
            if rule is not None and not isinstance(rule, HalfLife | Window):
                check.fail(owner, f"forget[{name!r}]", check.show(rule), "a HalfLife or a Window")
        if self.forgets:
            for kind in self.kinds:
                if "fading" not in kind.allows:
                    names = " or ".join(map(repr, sets_that_allow("two layers", "fading")))
                    check.fail(owner, "belief", repr(kind.name), f"{names} with forget: these sets are not for counts that fade")
            if self.planning == "greedy":
                check.fail(
                    owner, "planning", "'greedy'", "'full' with forget: greedy planning never gives up what it once believed"
                )
            if self.replan == "doubling":
                check.fail(owner, "replan", "'doubling'", "'every' or a number with forget: counts that fade may never double")

    def _check_limits(self, owner: str) -> None:
        """Check that the other settings allow limits of control."""
        if self.limits is not None:
            if self.planning == "greedy":
                expected = "'full' with at_most or at_least: greedy planning is for costs that stay"
                check.fail(owner, "planning", "'greedy'", expected)
            if self.replan == "doubling":
                expected = "'every' or a number with at_most or at_least: a plan that is kept has its shares"
                check.fail(owner, "replan", "'doubling'", expected)

    def _check_baseline(self, owner: str) -> None:
        """Check that the other settings allow a baseline."""
        if self.baseline is not None:
            if self.limits is not None:
                expected = "left out with at_most or at_least, which it can contradict: price control instead, by control_cost"
                check.fail(owner, "baseline", str(self.baseline), f"{expected} (docs/guarantees.md)")
            if self.planning == "greedy":
                expected = "'full' with a baseline: only of a whole plan it can be proven what it costs"
                check.fail(owner, "planning", "'greedy'", expected)
            if self.forgets:
                check.fail(owner, "forget", "given", "left out with a baseline: what was proven would have to be forgotten, too")
            for kind in self.kinds:
                if "bounds" not in kind.allows:
                    expected = "'kl' with a baseline: sets for optimism only prove nothing about what a policy costs at most"
                    check.fail(owner, "belief", repr(kind.name), expected)
            if self.radius is None or self.flat:
                expected = "left out: it has no confidence sets of both layers to prove anything by"
                check.fail(owner, "baseline", str(self.baseline), expected)

    @property
    def kinds(self) -> tuple[BeliefKind, ...]:
        """Return the kinds of sets of both layers; empty if there are none."""
        return tuple(BY_NAME[name] for name in (self.radius, self.agents_radius) if name is not None)

    def allows(self, use: Use) -> bool:
        """Return whether the sets of both layers may be used for this."""
        return all(use in kind.allows for kind in self.kinds)

    @property
    def forgets(self) -> bool:
        """Return whether any counts fade."""
        return bool(self.forget) or self.forget_environment is not None

    @property
    def has_sets(self) -> bool:
        """Return whether there are sets of both layers that are to hold the truth, so that they bound costs from both sides."""
        return self.radius is not None and not self.flat and self.allows("bounds")

    @property
    def is_scaled(self) -> bool:
        """Return whether radii may be narrower than those that carry the guarantee."""
        parts = (self.scale.agents, self.scale.environment)
        return not self.allows("guarantee") or any(not isinstance(x, float) or x < 1.0 for x in parts)

    @property
    def can_share(self) -> bool:
        """Return whether a learner with these settings learns an environment table that others can use."""
        return not self.flat and self.known_environment is None and self.policy is None and self.forget_environment is None

    @property
    def outcomes(self) -> Outcomes | None:
        """Return the declared structure of the environment; None if there is none."""
        return None if self.structure is None else self.structure.environment


def checked_form(owner: str, place: Any, array: Any, axes: int, dtype: Any = np.float64) -> Any:
    """Check that an array has the type and the number of axes that kernels are compiled for; return it read-only, in C order."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != axes:
        check.fail(owner, str(place), check.show(array), f"an array of {np.dtype(dtype)} with {axes} axes")
    return check.frozen(np.ascontiguousarray(array))


# -------------------------------------------------------------------------------- functions over all fields


def shown(task: Task, settings: Settings) -> dict[str, Any]:
    """Return settings as a user reads them: all that is needed to repeat a run, as text and numbers by name."""
    bounded = settings.radius is not None
    radius = (
        settings.radius if settings.agents_radius is None else f"{settings.agents_radius} (agents), {settings.radius} (environment)"
    )
    forget = {
        **settings.forget,
        **({} if settings.forget_environment is None else {"the environment": settings.forget_environment}),
    }
    special: dict[str, Any] = {
        "radius": radius,
        "delta": settings.delta if bounded else None,
        "scale": shown_scale(settings) if bounded else None,
        "prior": settings.prior or None,
        "structure": None if settings.structure is None else str(settings.structure),
        "features": None if settings.features is None else list(settings.features.names),
        "forget": forget or None,
        "known_agents": [task.tables[table] for table in settings.known_agents],
        "known_environment": settings.known_environment is not None,
    }
    elsewhere = {"name", "agents_radius", "flat", "forget_environment", "limits", "baseline", "policy"}  # shown under other names
    result: dict[str, Any] = {"learner": settings.name}
    for one in fields(settings):
        if one.name not in elsewhere:
            result[one.name] = special.get(one.name, getattr(settings, one.name))
    if settings.limits is not None:
        least, most = settings.limits
        result["at_least"] = {name: float(x) for name, x in zip(task.members, least, strict=True) if x > 0} or None
        result["at_most"] = {name: float(x) for name, x in zip(task.members, most, strict=True) if x < 1} or None
    if settings.baseline is not None:
        start = "" if settings.baseline.start is None else ", start known"
        result["baseline"] = str(settings.baseline) + start + (" (not guaranteed: radii are scaled)" if settings.is_scaled else "")
    return result


def shown_scale(settings: Settings) -> str:
    """Return the scale of the sets as a user reads it."""
    return ("" if settings.allows("guarantee") else "calibrated from the data, no guarantee; times ") + str(settings.scale)


Memo = dict[Any, Any]  # digests of large values that were met before, by identity


def key_of(value: Any, memo: Memo) -> Any:
    """Return a hashable key of a value, equal for equal values. memo: keys of large values that were met before."""
    if isinstance(value, np.ndarray):
        place = (value.ctypes.data, value.shape)  # equal for all views of one array
        if place not in memo:
            memo[place] = (
                hashlib.sha256(np.ascontiguousarray(value).data).hexdigest(),
                value,
            )  # keeps the value alive, so that its address is not used again
        return memo[place][0]
    if isinstance(value, Mapping):
        return tuple((name, key_of(one, memo)) for name, one in value.items())
    if isinstance(value, tuple):
        return tuple(key_of(one, memo) for one in value)
    if isinstance(value, Environment | Outcomes | Features):
        if id(value) not in memo:
            memo[id(value)] = (archive.digest(value), value)
        return memo[id(value)][0]
    return value


def alike_key(task: Task, settings: Settings, memo: Memo) -> tuple[Any, ...]:
    """Return a hashable key of settings, which is equal for learners that may run in one group.

    Agents are compared by their place in the task, since teams may name them differently. Fields that are a team's own are left
    out. Functions, as scales may be, are compared by identity.
    """
    structure, baseline = settings.structure, settings.baseline
    seen = {} if structure is None else structure.agents
    by_place = {
        "scale": tuple(
            one if isinstance(one, float | StepDown) else id(one) for one in (settings.scale.agents, settings.scale.environment)
        ),
        "structure": (tuple(seen.get(name) for name in task.tables), structure and structure.environment),
        "forget": tuple(settings.forget.get(name) for name in task.tables),
        "baseline": baseline and (baseline.policy, baseline.alpha, baseline.start),
    }
    names = [one.name for one in fields(settings) if not one.metadata.get("own")]
    return (settings.policy is None, *(key_of(by_place.get(name, getattr(settings, name)), memo) for name in names))


def for_newcomer(task: Task, settings: Settings, like: Task, known_agents: Mapping[int, Floats]) -> Settings:
    """Return the settings of a new team that is told the same as another one.

    task: that of the new team. told, like: settings and task of the other team. known_agents: what is known of the new team's
    agents, as in `Settings`.

    Limits, a baseline and known agents are not taken over: they are a team's own. What is declared of agents, and rules to forget,
    are taken over for agents of the same name. If one rule holds for all agents of the other team, it holds for all of the new one.
    """
    structure, forget = settings.structure, {name: rule for name, rule in settings.forget.items() if name in task.tables}
    if structure is not None:
        own = {name for table, name in enumerate(task.tables) if table not in known_agents}
        left = {name: cases for name, cases in structure.agents.items() if name in own}
        structure = replace(structure, agents=left)
    if len(settings.forget) == len(like.tables) and len(set(settings.forget.values())) == 1:  # one rule for all agents
        forget = dict.fromkeys(task.tables, next(iter(settings.forget.values())))
    return replace(settings, known_agents=known_agents, structure=structure, forget=forget, limits=None, baseline=None)


def check_fits(owner: str, task: Task, settings: Settings) -> None:
    """Check settings that come from a file against the task of the learner."""
    for table, policies in settings.known_agents.items():
        name = task.tables[check.index(owner, "the number of a known agent", table, len(task.tables))]
        shape = (int(task.n_slots[table]), task.n_states, task.n_actions)
        if policies.shape != shape:
            check.fail(owner, f"the shape of the policy of {name!r}", policies.shape, str(shape))
        task.known_agents(owner, {name: policies.reshape(task.slot_shape(table))})
    checked_environment(owner, task, settings.known_environment)
    checked_structure(owner, settings.structure, task.n_states, task.n_actions, task.tables)
    if settings.features is not None and len(settings.features.codes) != task.n_states:
        check.fail(owner, "the number of rows of features", len(settings.features.codes), f"{task.n_states}, the number of states")
    check_task(owner, task, settings)
    for name in settings.forget:
        check.choice(owner, "forget", name, task.tables)
    if settings.limits is not None:
        if any(len(end) != len(task.members) for end in settings.limits):
            check.fail(owner, "the number of limits", len(settings.limits[0]), f"{len(task.members)}, one for each member")
        least, most = (dict(zip(task.members, end.tolist(), strict=True)) for end in settings.limits)
        limits_of(owner, task, most, least)
    if settings.baseline is not None:
        settings.baseline.check_fits(owner, task)
    if settings.policy is not None:
        checked_switching_policy(owner, task, settings.policy if task.horizon is not None else settings.policy[0])


def check_task(owner: str, task: Task, settings: Settings) -> None:
    """Check that a learner with these settings can be made for a task: without horizon, with ends, with unknown costs."""
    if settings.structure is not None and settings.structure.environment is not None and task.periods is not None:
        expected = "left out where the environment varies with time: its cases would have to hold at all times"
        check.fail(owner, "structure.environment", "given", expected)
    if settings.known_environment is not None and not np.array_equal(settings.known_environment.periods, task.periods):
        check.fail(owner, "the periods of known_environment", "others", "those of the task")
    if settings.planning == "greedy" and task.enter_cost is not None and np.isnan(task.enter_cost).any():
        check.fail(owner, "planning", "'greedy'", "'full' where costs of arriving are learned: they change values everywhere")
    if settings.baseline is not None and task.discount is not None and task.horizon is not None:
        check.fail(owner, "discount", task.discount, "left out with a baseline: its proofs add up whole episodes")
    if settings.features is not None and not modelled_agents(task, settings) and not models_environment(task, settings):
        check.fail(owner, "features", "given", "left out where all agents and the environment are known or declared")
    if task.horizon is not None:
        return
    if settings.features is not None:
        check.fail(owner, "features", "given", "left out without a horizon: priors are made anew between episodes")
    if settings.baseline is not None:
        check.fail(owner, "baseline", str(settings.baseline), "left out without a horizon: its proofs count whole episodes")
    if settings.planning == "greedy":
        check.fail(owner, "planning", "'greedy'", "'full' without a horizon: greedy planning goes through an episode")
    if settings.auditions:
        check.fail(owner, "auditions", True, "False without a horizon: there are no whole episodes")
    if settings.replan == "every" and settings.policy is None:
        check.fail(owner, "replan", "'every'", "'doubling' or a number of steps without a horizon: there are no episodes")
    if callable(settings.scale.agents) or callable(settings.scale.environment):
        check.fail(owner, "scale", str(settings.scale), "numbers without a horizon: a schedule goes by episodes")


def modelled_agents(task: Task, settings: Settings) -> set[str]:
    """Return the agents, by their names in `task.tables`, whose priors are made from features: neither known nor declared."""
    declared = {} if settings.structure is None else settings.structure.agents
    return {name for table, name in enumerate(task.tables) if table not in settings.known_agents and name not in declared}


def models_environment(task: Task, settings: Settings) -> bool:
    """Return whether the environment's prior is made from features: it is neither known nor declared, and the same at all times."""
    return settings.known_environment is None and settings.outcomes is None and task.n_periods == 1


def resolved(owner: str, task: Task, replan: Any, limits: Any, planning: Any = "full") -> Any:
    """Return the rule when to plan again that is meant by None: for every episode; without a horizon when a count has doubled, or,
    if there are limits, after so many steps.
    """
    if isinstance(task, Task) and task.horizon is None and planning == "greedy":
        check.fail(owner, "planning", "'greedy'", "'full' without a horizon: greedy planning goes through an episode")
    if replan is not None or not isinstance(task, Task):
        return replan
    if task.horizon is not None:
        return "every"
    return "doubling" if limits is None else STEPS_BETWEEN_PLANS


# ------------------------------------------------------------------------------------------------- checks of a user's arguments


def check_planning(owner: str, planning: Any, replan: Any) -> None:
    """Check the settings `planning` and `replan`, and that they go together."""
    check.choice(owner, "planning", planning, ("full", "greedy"))
    if isinstance(replan, str):
        check.choice(owner, "replan", replan, ("every", "doubling"))
    else:
        check.integer(owner, "replan", replan, 1, MOST_EPISODES)
    if planning == "greedy" and replan not in ("every", 1):
        check.fail(owner, "replan", check.show(replan), "'every': greedy planning has no whole plan to keep")


def checked_task(owner: str, task: Any) -> Task:
    """Check that a task is a Task, and return it. If it is a TwoLayerMDP, the error says to give its task."""
    if not isinstance(task, Task):
        hint = "a Task, as in mdp.task" if isinstance(task, TwoLayerMDP) else "a Task"
        check.fail(owner, "task", check.show(type(task).__name__), hint)
    return task


def checked_environment(owner: str, task: Task, environment: Any) -> Environment | None:
    """Check that a known environment has the states and actions of the task, and return it; None stays None."""
    if environment is None:
        return None
    known = check.instance(owner, "known_environment", environment, Environment)
    mine, theirs = (known.n_states, known.n_actions), (task.n_states, task.n_actions)
    if mine != theirs:
        check.fail(owner, "(S, A) of known_environment", mine, f"{theirs}, as in the task")
    return known


def checked_knowledge(owner: str, task: Any, known_agents: Any, known_environment: Any, structure: Any) -> dict[str, Any]:
    """Check what is known or declared, and return the settings `known_agents`, `known_environment` and `structure`.

    The arguments are those of `ucrl2_mc`. What is declared of something that is known is dropped.
    """
    agents = checked_task(owner, task).known_agents(owner, {} if known_agents is None else known_agents)
    environment = checked_environment(owner, task, known_environment)
    declared = checked_structure(owner, structure, task.n_states, task.n_actions, task.tables)
    if declared is not None:  # drop what is declared of known tables
        known = {task.tables[table] for table in agents}
        left = {name: cases for name, cases in declared.agents.items() if name not in known}
        declared = replace(declared, agents=left, environment=None if environment is not None else declared.environment)
        declared = declared if declared.agents or declared.of_environment is not None else None
    return {"known_agents": agents, "known_environment": environment, "structure": declared}


def checked_belief(owner: str, belief: Any) -> dict[str, Any]:
    """Check the argument `belief` of `ucrl2_mc`, and return the settings `radius` and `agents_radius`."""
    kinds = sets_that_allow("two layers")
    if not isinstance(belief, Mapping):
        return {"radius": check.choice(owner, "belief", belief, kinds)}
    if belief.keys() != {"agents", "environment"}:
        check.fail(owner, "belief", check.show(dict(belief)), "one name, or one for 'agents' and one for 'environment'")
    agents, environment = (check.choice(owner, f"belief[{x!r}]", belief[x], kinds) for x in ("agents", "environment"))
    return {"radius": environment, "agents_radius": None if agents == environment else agents}


def checked_forgetting(owner: str, task: Task, forget: Any, forget_environment: Any) -> dict[str, Any]:
    """Check the arguments `forget` and `forget_environment` of `ucrl2_mc`, and return the settings of these names."""
    if forget is None or isinstance(forget, HalfLife | Window):
        rules = dict.fromkeys(() if forget is None else task.tables, forget)
    elif not isinstance(forget, Mapping):
        check.fail(owner, "forget", check.show(forget), "a HalfLife or a Window, or one by agent: {'human': HalfLife(500)}")
    else:
        rules = dict(forget)
    for place, rule in (*((f"forget[{name!r}]", one) for name, one in rules.items()), ("forget_environment", forget_environment)):
        if rule is not None and not isinstance(rule, HalfLife | Window):
            check.fail(owner, place, check.show(rule), "a HalfLife or a Window")
    for name in rules:
        if name not in task.tables:
            check.fail(owner, "an agent of forget", check.show(name), check.one_of(task.tables))
    return {"forget": {name: rule for name, rule in rules.items() if rule is not None}, "forget_environment": forget_environment}


def checked_limits(owner: str, task: Task, at_most: Any, at_least: Any) -> dict[str, Any]:
    """Check the arguments `at_most` and `at_least` of `ucrl2_mc`, and return the setting `limits`."""
    limits = limits_or_none(owner, task, at_most, at_least)
    if limits is not None and task.horizon is None and task.discount is not None:
        expected = "left out with a discount and no horizon: such a run has no share of steps that could be compared with its costs"
        check.fail(owner, "at_most or at_least", "given", f"{expected}; give a horizon, or no discount")
    return {"limits": limits}
