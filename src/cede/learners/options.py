"""Options that several algorithms share: frozen dataclasses, checked when they are made from arguments.

BeliefNames      kinds of the confidence sets of both layers
Knowledge        known policies, the known environment, and declared structure
ForgetRules      how counts fade
FullPlans        make whole plans, and when
GreedyBackups    back up only the states that are visited

promises.py has limits, baseline and trial episodes. Settings of an algorithm are composed of these (settings.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cede._base import check
from cede._base.arrays import Floats
from cede._base.remade import Remade
from cede.beliefs.registry import SETS, sets_that_allow
from cede.learners.promises import checked_form
from cede.problem.model import Environment, TwoLayerMDP
from cede.problem.policies import known_policies
from cede.problem.structure import Structure, checked_structure
from cede.problem.task import Task
from cede.rows.fading import Forget, HalfLife, Window

Replan = Literal["every", "doubling"] | int | None
Planning = Literal["full", "greedy"]
STEPS_BETWEEN_PLANS = 1000  # default without a horizon, if there are prices of limits to update
MOST_EPISODES = 2**62


@dataclass(frozen=True)
class BeliefNames(Remade):
    """Names of the kinds of the confidence sets, see beliefs/registry.py."""

    environment: str = "printed"
    agents: str | None = None  # None: as the environment's

    def __post_init__(self) -> None:
        for name in ("environment", "agents"):
            options = tuple(kind.name for kind in SETS)
            check.choice("belief", name, getattr(self, name), options if name == "environment" else (*options, None))

    @property
    def of_layers(self) -> tuple[str, str]:
        """Return the kind of the agents' sets and that of the environment's."""
        return self.agents or self.environment, self.environment

    def __str__(self) -> str:
        return self.environment if self.agents is None else f"{self.agents} (agents), {self.environment} (environment)"

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the argument `belief` that gives these."""
        both = {"agents": self.agents, "environment": self.environment}
        return {"belief": self.environment if self.agents is None else both}


@dataclass(frozen=True, eq=False)
class Knowledge(Remade):
    """Known policies, the known environment, and declared structure of the rest."""

    agents: Mapping[int, Floats] = field(default_factory=dict)  # index in task.tables -> policy, (slots, S, A)
    environment: Environment | None = None
    structure: Structure | None = None

    def __post_init__(self) -> None:
        agents = check.mapping("Knowledge", "agents", self.agents, "policies by their number")
        object.__setattr__(self, "agents", {i: checked_form("known agent", i, p, 3) for i, p in agents.items()})
        for name, kind in (("environment", Environment), ("structure", Structure)):
            if getattr(self, name) is not None:
                check.instance("Knowledge", name, getattr(self, name), kind)

    def check_fits(self, owner: str, task: Task) -> None:
        """Check shapes and names against a task."""
        for table, policies in self.agents.items():
            name = task.tables[check.index(owner, "the number of a known agent", table, len(task.tables))]
            shape = (int(task.layout.n_slots[table]), task.n_states, task.n_actions)
            if policies.shape != shape:
                check.fail(owner, f"the shape of the policy of {name!r}", policies.shape, str(shape))
            known_policies(owner, task, {name: policies.reshape(task.slot_shape(table))})
        checked_environment(owner, task, self.environment)
        checked_structure(owner, self.structure, task.n_states, task.n_actions, task.tables)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments that give this. Agents are given by index."""
        arguments = {"known_agents": dict(self.agents), "known_environment": self.environment, "structure": self.structure}
        return {name: value for name, value in arguments.items() if value}


@dataclass(frozen=True, eq=False)
class ForgetRules(Remade):
    """How counts fade. Counts without a rule do not fade."""

    agents: Mapping[str, Forget] = field(default_factory=dict)  # by name in task.tables
    environment: Forget | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "agents", check.mapping("ForgetRules", "agents", self.agents, "rules by the agents' names"))
        for name, rule in (*self.agents.items(), ("the environment", self.environment)):
            if not isinstance(rule, HalfLife | Window) and not (rule is None and name == "the environment"):
                check.fail("ForgetRules", f"forget[{name!r}]", check.show(rule), "a HalfLife or a Window")

    @property
    def any(self) -> bool:
        """Return whether any counts fade."""
        return bool(self.agents) or self.environment is not None

    def check_fits(self, owner: str, task: Task) -> None:
        """Check that the rules are for agents of a task."""
        for name in self.agents:
            check.choice(owner, "forget", name, task.tables)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments that give these rules."""
        arguments = {"forget": dict(self.agents), "forget_environment": self.environment}
        return {name: value for name, value in arguments.items() if value}


@dataclass(frozen=True)
class FullPlans(Remade):
    """Make whole plans: for every episode, when a count has doubled, or after a number of episodes (without horizon: steps)."""

    replan: Literal["every", "doubling"] | int = "every"

    def __post_init__(self) -> None:
        check_replan("FullPlans", self.replan)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the argument `replan` that gives this."""
        return {} if self.replan == "every" else {"replan": self.replan}


@dataclass(frozen=True)
class GreedyBackups(Remade):
    """Back up only visited states (Efroni et al. 2019), without a whole plan."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the argument `planning` that gives this."""
        return {"planning": "greedy"}


Plans = FullPlans | GreedyBackups


# ------------------------------------------------------------------------------------------------- from a user's arguments


def checked_task(owner: str, task: Any) -> Task:
    """Check that a task is a Task, and return it. If it is a TwoLayerMDP, the error says to give its task."""
    if not isinstance(task, Task):
        hint = "a Task, as in mdp.task" if isinstance(task, TwoLayerMDP) else "a Task"
        check.fail(owner, "task", check.show(type(task).__name__), hint)
    return task


def check_replan(owner: str, replan: Any) -> None:
    """Check the argument `replan`."""
    if isinstance(replan, str):
        check.choice(owner, "replan", replan, ("every", "doubling"))
    else:
        check.integer(owner, "replan", replan, 1, MOST_EPISODES)


def checked_plans(owner: str, task: Task, planning: Any, replan: Any, limits: object = None) -> Plans:
    """Check the arguments `planning` and `replan`, and return how to plan. limits: of control, if there are any."""
    check.choice(owner, "planning", planning, ("full", "greedy"))
    if planning == "full":
        return checked_full_plans(owner, task, replan, limits)
    if task.horizon is None:
        check.fail(owner, "planning", "'greedy'", "'full' without a horizon: greedy planning goes through an episode")
    if replan is not None:
        check_replan(owner, replan)
        if replan not in ("every", 1):
            check.fail(owner, "replan", check.show(replan), "'every': greedy planning has no whole plan to keep")
    return GreedyBackups()


def checked_full_plans(owner: str, task: Task, replan: Any, limits: object = None) -> FullPlans:
    """Check the argument `replan`, and return when to plan.

    replan: None means every episode; without a horizon, when a count has doubled, or with limits after STEPS_BETWEEN_PLANS.
    """
    if replan is None:
        replan = "every" if task.horizon is not None else "doubling" if limits is None else STEPS_BETWEEN_PLANS
    check_replan(owner, replan)
    return FullPlans(replan)


def checked_environment(owner: str, task: Task, environment: Any) -> Environment | None:
    """Check that a known environment has the states and actions of the task, and return it; None stays None."""
    if environment is None:
        return None
    known = check.instance(owner, "known_environment", environment, Environment)
    mine, theirs = (known.n_states, known.n_actions), (task.n_states, task.n_actions)
    if mine != theirs:
        check.fail(owner, "(S, A) of known_environment", mine, f"{theirs}, as in the task")
    return known


def checked_knowledge(owner: str, task: Any, known_agents: Any, known_environment: Any, structure: Any) -> Knowledge:
    """Check known policies, known environment and declared structure; return them. The arguments are those of `ucrl2_mc`.

    Declared structure of known tables is dropped.
    """
    agents = known_policies(owner, checked_task(owner, task), {} if known_agents is None else known_agents)
    environment = checked_environment(owner, task, known_environment)
    declared = checked_structure(owner, structure, task.n_states, task.n_actions, task.tables)
    if declared is not None:  # drop what is declared of known tables
        known = {task.tables[table] for table in agents}
        left = {name: cases for name, cases in declared.agents.items() if name not in known}
        declared = replace(declared, agents=left, environment=None if environment is not None else declared.environment)
        declared = declared if declared.agents or declared.of_environment is not None else None
    return Knowledge(agents, environment, declared)


def checked_belief(owner: str, belief: Any) -> BeliefNames:
    """Check the argument `belief` of `ucrl2_mc`, and return the kinds of the sets."""
    kinds = sets_that_allow("two layers")
    if not isinstance(belief, Mapping):
        return BeliefNames(check.choice(owner, "belief", belief, kinds))
    if belief.keys() != {"agents", "environment"}:
        check.fail(owner, "belief", check.show(dict(belief)), "one name, or one for 'agents' and one for 'environment'")
    agents, environment = (check.choice(owner, f"belief[{x!r}]", belief[x], kinds) for x in ("agents", "environment"))
    return BeliefNames(environment, None if agents == environment else agents)


def checked_forgetting(owner: str, task: Task, forget: Any, forget_environment: Any) -> ForgetRules:
    """Check the arguments `forget` and `forget_environment` of `ucrl2_mc`, and return the rules."""
    if forget is None or isinstance(forget, HalfLife | Window):
        rules = dict.fromkeys(() if forget is None else task.tables, forget)
    elif not isinstance(forget, Mapping):
        check.fail(owner, "forget", check.show(forget), "a HalfLife or a Window, or one by agent: {'human': HalfLife(500)}")
    else:
        rules = dict(forget)
    for place, rule in (
        *((f"forget[{name!r}]", of_agent) for name, of_agent in rules.items()),
        ("forget_environment", forget_environment),
    ):
        if rule is not None and not isinstance(rule, HalfLife | Window):
            check.fail(owner, place, check.show(rule), "a HalfLife or a Window")
    for name in rules:
        if name not in task.tables:
            check.fail(owner, "an agent of forget", check.show(name), check.one_of(task.tables))
    return ForgetRules({name: rule for name, rule in rules.items() if rule is not None}, forget_environment)
