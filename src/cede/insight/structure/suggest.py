"""Suggests a structure from data: rules in features of the states, for a person to read and confirm.

A declared structure has a guarantee if it is true, which data cannot prove. So rules are found in one part of the data, written in
words, and tested on the part that was held back. A person who knows the system then decides.

Rules are suggested only if the features are informative: they must describe the steps better than the same features assigned to the
states at random.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Ints
from cede.beliefs.transition_trees import (
    Moves,
    TransitionTrees,
    acts_of,
    compressed,
    moves_of,
    state_variables,
    steps_for,
    variables_of,
)
from cede.beliefs.trees import Leaf, RuleData, Variable, counts_by, grow, score
from cede.insight.structure.checking import StructureCheck, check_structure, counted, homogeneity, whole_counts
from cede.insight.structure.rules import completed, each_rule, find_transition_rules, outcomes_of, predicted
from cede.insight.structure.text import tell, used_variables
from cede.problem.features import Features, read_features
from cede.problem.structure import Structure
from cede.problem.task import Task
from cede.rows.stored import Counts
from cede.steps.log import read_log

SHUFFLES = 19  # random orders of the states, all of which must describe the data worse
AT_FIRST, MARGIN = 4, 5.0  # after so many orders, it is enough if they are worse by so many standard deviations
ALPHA = 0.01  # level of tests whether places of one case differ
LOOK = 0.05  # p-value below which an agent is said to look at a feature; high, since a missed feature does more harm
PER_CASE = 5  # steps of an agent per case below which no rule is suggested
DRAWS = 2000  # random tables for such a test
MOST_CASES = 0.75  # of the number of places: with more cases there is no gain


@dataclass(frozen=True, eq=False)
class SuggestedRule:
    """A rule with its evidence."""

    layer: str  # "environment", or the name of an agent
    text: str
    visits: int  # steps in which it was found
    gain: float  # nats per step by which it predicts held-back steps better than plain frequencies do
    bic: float  # its BIC in these steps minus that of plain frequencies, in nats

    def __str__(self) -> str:
        head, *more = self.text.split("\n")
        evidence = f"[{self.visits} steps; {self.gain:.3f} nats per step better than frequencies alone; BIC {self.bic:+.0f}]"
        return "\n".join([f"{head}  {evidence}", *more])


@dataclass(frozen=True, eq=False)
class SuggestedStructure:
    """The result of `suggest_structure`. Print it to read it. Learners take `structure`, after a person has confirmed it."""

    structure: Structure
    rules: tuple[SuggestedRule, ...]
    not_found: tuple[str, ...]  # a sentence for each layer without rules
    check: StructureCheck  # of the structure, on the steps that were held back
    features: tuple[str, ...]  # their names

    def __str__(self) -> str:
        lines = [f"Suggested: {self.structure}", *(f"- {rule}" for rule in self.rules), *(f"- {text}" for text in self.not_found)]
        lines.append(f"On data that were held back: {self.check}")
        if not self.check.passed:
            lines.append("So it is not true as it stands: leave out what looks wrong, or give features that tell more.")
        if self.rules:
            lines.append("Data cannot prove a structure: let somebody who knows the system confirm every rule.")
            lines.append("What a rule calls certain is then certain: a step that contradicts it will be refused.")
            lines.append("To go on: cede.ucrl2_mc(task, structure=suggestion.structure)")
        return "\n".join(lines)


def suggest_structure(
    task: Task,
    episodes: Any,
    features: Any = None,
    *,
    names: Any = None,
    held_back: float = 0.3,
    enough: int = 30,
    seed: int | np.random.Generator = 0,
) -> SuggestedStructure:
    """Find a structure in data, by features of the states, as rules to be confirmed by a person.

    task: of the data. episodes: a log or Episodes, as `Learner.learn_from` takes them, or Counts that were made without a
    structure. features: of the states, a table of integers or strings, (S, F); a Gymnasium MultiDiscrete space that the states
    number in C order; None to read them from the names of the states. names: of the features.

    held_back: the fraction of the episodes, drawn by seed, on which the result is tested. enough: visits with a single outcome from
    which on the outcome counts as certain.

    A layer without rules stays undeclared, and `not_found` says so.
    """
    owner = "suggest_structure"
    if not isinstance(task, Task):
        check.fail(owner, "task", check.show(type(task).__name__), "a Task, as in mdp.task")
    held_back = check.probability(owner, "held_back", held_back)
    enough = check.integer(owner, "enough", enough, 1)
    rng = check.generator(owner, "seed", seed)
    known = read_features(owner, task, features, names)
    train, test = divided(owner, task, episodes, held_back, rng)
    environment = environment_rules(task, known, train, test, enough, rng)
    agents = [agent_rules(task, known, d, train, test, enough, rng) for d in range(len(task.tables))]
    labels = {name: agent.result for name, agent in zip(task.tables, agents, strict=True) if agent.result is not None}
    structure = Structure(labels, environment.result)
    texts = tuple(layer.missing for layer in (environment, *agents) if layer.missing)
    rules = tuple(rule for layer in (environment, *agents) for rule in layer.rules)
    return SuggestedStructure(structure, rules, texts, check_structure(task, structure, test), known.names)


def divided(owner: str, task: Task, data: Any, share: float, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Divide data into counts to find rules in, and counts to test them on.

    share: of the second part. Episodes stay whole. Each single step of Counts is held back with that probability, which is exact:
    steps in one place are exchangeable.
    """
    if isinstance(data, Counts):
        whole = whole_counts(owner, task, data)
        agents, environment = (thinned(layer, share, rng) for layer in (whole.agents, whole.environment))
        rest = Counts.of(task, whole.agents - agents, whole.environment - environment, 1)
        return rest, Counts.of(task, agents, environment, 1)
    log = read_log(owner, task, data)
    if len(log) < 2:
        check.fail(owner, "the number of episodes", len(log), "at least 2: some are held back")
    is_back = rng.permutation(len(log)) < max(1, min(len(log) - 1, round(share * len(log))))
    train, test = (counted(task, [log[i] for i in np.flatnonzero(is_back == which)]) for which in (False, True))
    return train, test


def thinned(layer: sp.csr_array, share: float, rng: np.random.Generator) -> sp.csr_array:
    """Return a random part of counts: each single one with the same probability."""
    drawn = rng.binomial(layer.data.astype(np.int64), share)
    return sp.csr_array((drawn, layer.indices, layer.indptr), shape=layer.shape)


@dataclass(frozen=True, eq=False)
class LayerRules:
    """The rules of one layer."""

    result: Any  # Outcomes of the environment, or labels (S,) of an agent; None: no rules
    rules: tuple[SuggestedRule, ...] = ()
    missing: str = ""  # why there are none


def no_rule(layer: str, reason: str) -> LayerRules:
    """Return the result for a layer without rules. reason: why there are none."""
    return LayerRules(None, missing=f"no rule for {layer}: {reason}")


def tells_something(features: Features, describe: Callable[[Features], float], rng: np.random.Generator) -> bool:
    """Return whether features describe data better than the same features assigned to the states at random.

    describe: returns how well features describe the data, in nats. All shuffled features must be worse. If the first few are worse
    by far, no more are tried.
    """
    own = describe(features)
    others: list[float] = []
    while len(others) < SHUFFLES:
        others.append(describe(replace(features, codes=rng.permutation(features.codes))))
        if others[-1] >= own:
            return False
        if len(others) >= AT_FIRST and own > np.mean(others) + MARGIN * float(np.std(others, ddof=1)):
            return True
    return True


def environment_rules(
    task: Task, features: Features, train: Counts, test: Counts, enough: int, rng: np.random.Generator
) -> LayerRules:
    """Find the rules of the environment."""
    if task.n_periods > 1:
        return no_rule("the environment", "it varies with time, which rules cannot say")
    actions = task.action_names or [str(a) for a in range(task.n_actions)]
    variables, n_actions = variables_of(features, actions), task.n_actions
    seen, back = moves_of(train.environment, n_actions), moves_of(test.environment, n_actions)
    if seen.visits.sum() < enough:
        return no_rule("the environment", f"only {int(seen.visits.sum())} steps")

    def describe(some: Features) -> float:
        parts = [steps_for(some, seen, n_actions, f, ()) for f in range(len(some.names))]
        return sum(score(grow(part, variables, count()), float(part.visits.sum()), len(variables)) for part in parts)

    if not tells_something(features, describe, rng):
        return no_rule("the environment", "shuffled features would tell as much; learned pair by pair")
    plain = find_transition_rules(features, variables, seen, enough, n_actions)
    whole = completed(plain, seen, back, enough, n_actions, ALPHA)
    outcomes = outcomes_of(task, whole)
    if outcomes is None:
        return no_rule("the environment", "the rules allow for too many outcomes; learned pair by pair")
    if outcomes.n_cases > MOST_CASES * task.n_states * n_actions:
        return no_rule("the environment", "almost every pair is different; learned pair by pair")
    return LayerRules(outcomes, evidence(plain, whole, seen, back, n_actions))


def evidence(plain: TransitionTrees, whole: TransitionTrees, seen: Moves, back: Moves, n_actions: int) -> tuple[SuggestedRule, ...]:
    """Return the rules of the environment with their evidence. plain: before `completed`. whole: after it, as declared."""
    result = []
    pairs = zip(each_rule(plain, seen, n_actions), each_rule(plain, back, n_actions), strict=True)
    for (f, tree, steps), (_, _, others) in pairs:
        text = tell(plain.features.names[f], whole.trees[f], plain.variables)
        values = len(np.unique(plain.features.codes[:, f]))
        result.append(measured("environment", text, tree, steps, others, values, len(plain.variables)))
    return tuple(result)


def measured(layer: str, text: str, tree: Any, steps: RuleData, others: RuleData, values: int, n_variables: int) -> SuggestedRule:
    """Return a rule with its evidence. steps: that it was found in. others: held back. values: number of possible outcomes."""
    alone = Leaf(0, "value", -1, np.unique(steps.value), counts_by(np.zeros_like(steps.value), steps.value, steps.visits)[0])
    n, m = float(steps.visits.sum()), max(float(others.visits.sum()), 1.0)
    gain = (predicted(tree, others, values) - predicted(alone, others, values)) / m
    return SuggestedRule(layer, text, int(n), gain, score(tree, n, n_variables) - score(alone, n, n_variables))


def agent_rules(
    task: Task, features: Features, d: int, train: Counts, test: Counts, enough: int, rng: np.random.Generator
) -> LayerRules:
    """Find which features an agent looks at. d: the agent, by its number in `task.tables`."""
    name = task.tables[d]
    now = state_variables(features)
    variables = (*now, Variable("slot", tuple(range(int(task.layout.n_slots[d])))))
    first = int(task.layout.first_slot[d]) * task.n_states
    rows = slice(first, first + int(task.layout.n_slots[d]) * task.n_states)
    steps, others = (acts_of(features, part.agents[rows]) for part in (train, test))
    if steps.visits.sum() < enough:
        return no_rule(name, f"it acted only {int(steps.visits.sum())} times")
    tree = grow(steps, variables, count(), LOOK)
    used = sorted(used_variables(tree) - {len(now)})

    def describe(some: Features) -> float:
        part = acts_of(some, train.agents[rows])
        return score(grow(part, variables, count()), float(part.visits.sum()), len(variables))

    if used and not tells_something(features, describe, rng):
        return no_rule(name, "shuffled features would tell as much; learned state by state")
    labels = compressed(features.codes[:, used]) if used else np.zeros(task.n_states, dtype=np.int64)
    cases = (int(labels.max()) + 1) * int(task.layout.n_slots[d])
    if steps.visits.sum() < PER_CASE * cases:
        return no_rule(name, "too few steps to tell what it does not look at; learned state by state")
    if labels.max() + 1 > MOST_CASES * task.n_states:
        return no_rule(name, "it looks at almost everything; learned state by state")
    if differs(labels, task.n_states, steps, rng):
        return no_rule(name, "it acts differently where the features are alike; learned state by state")
    unused = [feature for i, feature in enumerate(features.names) if i not in used]
    looks = f"looks at {', '.join(features.names[i] for i in used)}" if used else "acts alike everywhere"
    text = f"{name} {looks}" + (f"; not at {', '.join(unused)}" if used and unused else "")
    return LayerRules(labels, (measured(name, text, tree, steps, others, task.n_actions, len(variables)),))


def differs(labels: Ints, n_states: int, steps: RuleData, rng: np.random.Generator) -> bool:
    """Return whether an agent acts differently in states of one label (tests of homogeneity, corrected for their number)."""
    slot, state = np.divmod(steps.place, n_states)
    group = slot * (int(labels.max()) + 1) + labels[state]
    present = np.unique(group)
    parts = (steps.part(group == number) for number in present)
    return any(homogeneity(counts_by(here.place, here.value, here.visits), DRAWS, rng) < ALPHA / len(present) for here in parts)
