"""A problem as plain data, and the source that builds it with cede."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

HEAD = "import numpy as np, cede\nfrom cede.planning.planner import optimistic_plan\ninf, nan = np.inf, np.nan"


@dataclass(frozen=True, eq=False)
class Problem:
    """A problem: numbers only, nothing of cede. P tables, S states, A actions, M members, Q equally likely costs."""

    transition: Any  # (P, S, A, S)
    cost: Any  # (S, A, Q); Q = 1 if costs are not random
    start: Any  # (S,)
    policies: tuple[Any, ...]  # of each member: (1, S, A), (L, S, A) by time, (M, S, A) by previous agent
    varies: tuple[str | None, ...]
    control: Any  # (M,) or (S, M)
    switch: Any  # (M, M) or (S, M, M)
    horizon: int | None
    discount: float | None
    start_agent: int = 0
    periods: Any = None  # (L,)
    enter: Any = None  # (S,)
    terminal: tuple[int, ...] = ()
    delays: tuple[int, ...] = ()
    on_takeover: tuple[Any, ...] = ()  # (S, A) of each member, or None
    unknown: Any = None  # (S, A) whether each cost must be learned
    enter_unknown: Any = None  # (S,)
    cost_range: tuple[float, float] | None = None
    control_unknown: Any = None  # shaped as control
    switch_unknown: Any = None  # shaped as switch
    control_range: tuple[float, float] | None = None
    switch_range: tuple[float, float] | None = None
    agent_labels: tuple[tuple[int, Any], ...] = ()  # (member, (S,) labels)
    case: Any = None  # (S, A) which pairs share one distribution
    to: Any = None  # (S, A, outcomes) what each outcome means, -1: no such outcome
    cost_labels: Any = None  # (S, A)
    known_agents: tuple[int, ...] = ()
    known_environment: bool = False
    features: frozenset[str] = frozenset()
    most_runs: int = 1000  # of a log, at most
    number: int = 0
    seed: int = 0

    @property
    def n_states(self):
        return self.transition.shape[1]

    @property
    def n_actions(self):
        return self.transition.shape[2]

    @property
    def n_members(self):
        return len(self.policies)

    @property
    def names(self):
        return [f"a{i}" for i in range(self.n_members)]

    @property
    def learns(self):
        """Return whether some costs must be learned."""
        return any(one is not None for one in (self.unknown, self.control_unknown, self.switch_unknown))

    @property
    def endless(self):
        return self.horizon is None

    @property
    def averages(self):
        return self.horizon is None and self.discount is None

    def but(self, **changes):
        return replace(self, **changes)

    def source(self):
        """Return the lines that build `environment`, `mdp`, `task` (what a learner is told) and `told` (what else it is told)."""
        cost = self.cost if self.cost.shape[2] > 1 else self.cost[:, :, 0]
        transition = self.transition[0] if self.periods is None else self.transition
        more = "" if self.enter is None else f", enter_cost={text(self.enter)}"
        more += f", terminal={list(self.terminal)}" if self.terminal else ""
        more += "" if self.periods is None else f", periods={text(self.periods)}"
        lines = [f"environment = cede.Environment({text(transition)}, {text(cost)}, start={text(self.start)}{more})", "agents = ["]
        for i, name in enumerate(self.names):
            policy = self.policies[i][0] if self.varies[i] is None else self.policies[i]
            control = f", control_cost={text(self.control[..., i])}" if np.any(self.control[..., i]) else ""
            varies = f", varies_with={self.varies[i]!r}" if self.varies[i] else ""
            delay = f", takeover_delay={self.delays[i]}" if self.delays and self.delays[i] else ""
            own = f", on_takeover={text(self.on_takeover[i])}" if delay and self.on_takeover[i] is not None else ""
            lines.append(f"    cede.Agent({name!r}, {text(policy)}{control}{varies}{delay}{own}),")
        lines.append("]")
        options = f", start_agent={self.start_agent}" if self.start_agent else ""
        options += "" if self.discount is None else f", discount={self.discount!r}"
        finite = np.where(np.isinf(self.switch), 0.0, self.switch)
        switch = f"{text(finite)}, can_switch={text(np.isfinite(self.switch))}" if self.switch.ndim == 3 else text(self.switch)
        lines.append(f"mdp = cede.TwoLayerMDP(environment, cede.Team(agents, {switch}), {self.horizon}{options})")
        return [*lines, *self._task(), *self._settings()]

    def _task(self):
        if not self.learns:
            return ["task = mdp.task"]

        def without(costs, unknown):
            return text(costs if unknown is None else np.where(unknown, np.nan, costs))

        control, switch = without(self.control, self.control_unknown), without(self.switch, self.switch_unknown)
        parts = [
            f"{without(self.cost.mean(axis=2), self.unknown)}, {self.names}, {self.horizon}",
            f"cost_range={self.cost_range!r}",
        ]
        parts += [f"control_cost={control}, switch_cost={switch}, start_agent={self.start_agent}"]
        parts += [f"control_cost_range={self.control_range!r}, switch_cost_range={self.switch_range!r}"]
        parts += [f"varies_with={list(self.varies)}, terminal={list(self.terminal)}, discount={self.discount!r}"]
        if self.enter is not None:
            parts.append(f"enter_cost={without(self.enter, self.enter_unknown)}")
        if self.periods is not None:
            parts.append(f"periods={text(self.periods)}")
        if any(self.delays):
            delays = {name: delay for name, delay in zip(self.names, self.delays, strict=True) if delay}
            own = [name for name, policy in zip(self.names, self.on_takeover, strict=True) if policy is not None]
            parts.append(f"takeover_delay={delays}, on_takeover={own}")
        return [f"task = cede.Task({', '.join(parts)})"]

    def _settings(self):
        parts = []
        if self.case is not None or self.agent_labels or self.cost_labels is not None:
            agents = ", ".join(f"{self.names[i]!r}: {text(labels)}" for i, labels in self.agent_labels)
            environment = None if self.case is None else f"cede.Outcomes.of({text(self.case)}, {text(self.to)})"
            costs = "" if self.cost_labels is None else f", costs={text(self.cost_labels)}"
            parts.append(f"structure=cede.Structure({{{agents}}}, {environment}{costs})")
        if self.known_agents:
            known = ", ".join(f"{self.names[i]!r}: agents[{i}].policy" for i in self.known_agents)
            parts.append(f"known_agents={{{known}}}")
        if self.known_environment:
            parts.append("known_environment=environment")
        return [f"told = dict({', '.join(parts)})"]


def text(array):
    """Return an array as Python source, exactly."""
    return repr(np.asarray(array).tolist()).replace(" ", "") if np.size(array) > 1 else repr(np.asarray(array).tolist())


class Script:
    """Lines of Python that were executed, and can be printed as a script that does the same again."""

    def __init__(self, problem):
        self.lines = problem.source()
        self.names = {}
        exec(HEAD, self.names)
        exec("\n".join(self.lines), self.names)

    def run(self, line):
        exec(line, self.names)
        self.lines.append(line)

    def get(self, expression):
        return eval(expression, self.names)

    def snippet(self, expression, wanted):
        """Return a ready-to-run script that shows what cede answers and what the reference does."""
        shown = [f'print("cede:     ", {expression})', f'print("reference:", {wanted!r})']
        return "\n".join([HEAD, "", *self.lines, "", *shown, ""])
