"""Suggests a structure from data: rules in features of the states, to be read and confirmed by a person.

A structure that is declared has a guarantee, if it is true. Data cannot prove that it is. So rules are found in one part of the
data, said in words, and tested on the part that was held back. Somebody who knows the system then decides.

Rules are only suggested if the features tell something: they must describe the steps better than the same features dealt out to the
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
from cede.learning.counts import Counts, Tally
from cede.learning.features import Features, read_features
from cede.learning.logs import count_steps, read_log
from cede.learning.rule_text import tell
from cede.learning.rules import Leaf, Steps, Variable, counts_by, grow, predicted, score, used_variables
from cede.learning.structure_check import StructureCheck, check_structure, homogeneity
from cede.learning.transition_rules import (
    Moves,
    TransitionRules,
    completed,
    compressed,
    each_rule,
    find_transition_rules,
    moves_of,
    n_values,
    outcomes_of,
    steps_for,
    variables_of,
)
from cede.problem.structure import Structure
from cede.problem.task import Task

SHUFFLES = 19  # random orders of the states that must describe the data worse
AT_FIRST, MARGIN = 4, 5.0  # after so many, it is enough if they are worse by so many standard deviations
ALPHA = 0.01  # level of tests whether what is called alike differs
LOOK = 0.05  # p-value below which an agent is said to look at a feature: to say so wrongly does less harm than not to say so
PER_CASE = 5  # steps of an agent for each case, below which nobody could tell what it does not look at
DRAWS = 2000  # random tables for such a test
MOST_CASES = 0.75  # of the number of places: with more cases nothing would be gained


@dataclass(frozen=True, eq=False)
class Rule:
    """One rule that was found, with its evidence."""

    layer: str  # "environment", or the name of an agent
    text: str
    visits: int  # steps that it was found in
    gain: float  # nats per step by which it predicts held-back steps better than plain frequencies do
    bic: float  # nats by which it describes the steps better that it was found in, after a fee for its size

    def __str__(self) -> str:
        head, *more = self.text.split("\n")
        evidence = f"[{self.visits} steps; {self.gain:.3f} nats per step better than frequencies alone; BIC {self.bic:+.0f}]"
        return "\n".join([f"{head}  {evidence}", *more])


@dataclass(frozen=True, eq=False)
class SuggestedStructure:
    """What `suggest_structure` found. Print it to read it; `structure` is what learners take, once somebody has confirmed it."""

    structure: Structure
    rules: tuple[Rule, ...]
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

    task: what the data belong to. episodes: a log or Episodes, as `Learner.learn_from` takes them, or Counts that were made without
    a structure. features: what tells the states apart: a table of integers or strings, (S, F); a Gymnasium MultiDiscrete space that
    the states number in C order; None to read it from the names of the states. names: of the features.

    held_back: the share of the episodes, drawn by seed, on which the result is tested. enough: visits in which nothing else came,
    from which on something counts as certain.

    Where nothing is found, that layer stays undeclared, and `not_found` says so.
    """
    owner = "suggest_structure"
    if not isinstance(task, Task):
        check.fail(owner, "task", check.show(type(task).__name__), "a Task, as in mdp.task")
    held_back = check.probability(owner, "held_back", held_back)
    enough = check.integer(owner, "enough", enough, 1)
    rng = check.generator(owner, "seed", seed)
    known = read_features(owner, task, features, names)
    train, test = divided(owner, task, episodes, held_back, rng)
    found = [
        environment_rules(task, known, train, test, enough, rng),
        *(agent_rules(task, known, d, train, test, enough, rng) for d in range(len(task.tables))),
    ]
    labels = {task.tables[d]: one.result for d, one in enumerate(found[1:]) if one.result is not None}
    structure = Structure(labels, found[0].result)
    texts = tuple(one.missing for one in found if one.missing)
    rules = tuple(rule for one in found for rule in one.rules)
    return SuggestedStructure(structure, rules, texts, check_structure(task, structure, test), known.names)


def divided(owner: str, task: Task, data: Any, share: float, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Divide data into counts to find rules in, and counts to test them on.

    share: of the second part. Episodes stay whole. Of Counts, every single step is held back with that probability, which is exact:
    steps in one place are exchangeable.
    """
    if isinstance(data, Counts):
        whole = Counts.zeros(task) + data
        for layer in (whole.agents, whole.environment):
            if (layer.data != np.round(layer.data)).any():
                check.fail(
                    owner, "a count", layer.data[layer.data != np.round(layer.data)][0], "whole: counts that fade are not data"
                )
        test = [thinned(layer, share, rng) for layer in (whole.agents, whole.environment)]
        none = Counts.zeros(task)
        return (
            replace(
                none, agents=whole.agents - test[0], environment=whole.environment - test[1], episodes=1, environment_episodes=1
            ),
            replace(none, agents=test[0], environment=test[1], episodes=1, environment_episodes=1),
        )
    log = read_log(owner, task, data)
    if len(log) < 2:
        check.fail(owner, "the number of episodes", len(log), "at least 2: some are held back")
    back = rng.permutation(len(log)) < max(1, min(len(log) - 1, round(share * len(log))))
    parts = []
    for which in (False, True):
        tally = Tally(task, Counts.zeros(task), flat=False)
        for steps, is_back in zip(log, back, strict=True):
            if is_back == which:
                count_steps(tally, steps)
                tally.end_episode()
        parts.append(tally.counts)
    return parts[0], parts[1]


def thinned(layer: sp.csr_array, share: float, rng: np.random.Generator) -> sp.csr_array:
    """Return a random part of counts: each single one with the same probability."""
    drawn = rng.binomial(layer.data.astype(np.int64), share)
    return sp.csr_array((drawn, layer.indices, layer.indptr), shape=layer.shape)


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of one layer."""

    result: Any  # Outcomes of the environment, or labels (S,) of an agent; None: nothing
    rules: tuple[Rule, ...] = ()
    missing: str = ""  # why there is nothing


def tells_something(features: Features, describe: Callable[[Features], float], rng: np.random.Generator) -> bool:
    """Return whether features describe data better than the same features dealt out to the states at random.

    describe: returns how well features describe the data, in nats. All shuffled features must be worse. If the first few of them
    are worse by far, no more are tried.
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


def environment_rules(task: Task, features: Features, train: Counts, test: Counts, enough: int, rng: np.random.Generator) -> Found:
    """Find the rules of the environment."""
    if task.n_periods > 1:
        return Found(None, missing="no rule for the environment: it varies with time, which rules cannot say")
    actions = task.action_names or [str(a) for a in range(task.n_actions)]
    variables, n_actions = variables_of(features, actions), task.n_actions
    seen, back = moves_of(train.environment, n_actions), moves_of(test.environment, n_actions)
    if seen.visits.sum() < enough:
        return Found(None, missing=f"no rule for the environment: only {int(seen.visits.sum())} steps")

    def describe(some: Features) -> float:
        parts = [steps_for(some, seen, n_actions, f, ()) for f in range(len(some.names))]
        return sum(score(grow(part, variables, count()), float(part.visits.sum()), len(variables)) for part in parts)

    if not tells_something(features, describe, rng):
        return Found(None, missing="no rule for the environment: shuffled features would tell as much; learned pair by pair")
    plain = find_transition_rules(features, variables, seen, enough, n_actions)
    whole = completed(plain, seen, back, enough, n_actions, ALPHA)
    outcomes = outcomes_of(task, whole)
    if outcomes is None:
        return Found(None, missing="no rule for the environment: the rules allow for too many outcomes; learned pair by pair")
    if outcomes.n_cases > MOST_CASES * task.n_states * n_actions:
        return Found(None, missing="no rule for the environment: almost every pair is different; learned pair by pair")
    return Found(outcomes, evidence(plain, whole, seen, back, n_actions))


def evidence(plain: TransitionRules, whole: TransitionRules, seen: Moves, back: Moves, n_actions: int) -> tuple[Rule, ...]:
    """Return the rules of the environment with their evidence. plain: as found. whole: as they are declared."""
    result = []
    pairs = zip(each_rule(plain, seen, n_actions), each_rule(plain, back, n_actions), strict=True)
    for (f, tree, steps), (_, _, others) in pairs:
        text = tell(plain.features.names[f], whole.trees[f], plain.variables)
        result.append(measured("environment", text, tree, steps, others, n_values(plain.features, f), len(plain.variables)))
    return tuple(result)


def measured(layer: str, text: str, tree: Any, steps: Steps, others: Steps, values: int, n_variables: int) -> Rule:
    """Return a rule with its evidence. steps: that it was found in. others: held back. values: how many may come."""
    alone = Leaf(0, "value", -1, np.unique(steps.value), counts_by(np.zeros_like(steps.value), steps.value, steps.visits)[0])
    n, m = float(steps.visits.sum()), max(float(others.visits.sum()), 1.0)
    gain = (predicted(tree, others, values) - predicted(alone, others, values)) / m
    return Rule(layer, text, int(n), gain, score(tree, n, n_variables) - score(alone, n, n_variables))


def agent_rules(
    task: Task, features: Features, d: int, train: Counts, test: Counts, enough: int, rng: np.random.Generator
) -> Found:
    """Find which features an agent looks at. d: the agent, by its number in `task.tables`."""
    name = task.tables[d]
    now = [Variable(one, features.values, numeric) for one, numeric in zip(features.names, features.numeric, strict=True)]
    variables = (*now, Variable("slot", tuple(range(int(task.n_slots[d])))))
    steps, others = (acts_of(task, features, d, part) for part in (train, test))
    if steps.visits.sum() < enough:
        return Found(None, missing=f"no rule for {name}: it acted only {int(steps.visits.sum())} times")
    tree = grow(steps, variables, count(), LOOK)
    used = sorted(used_variables(tree) - {len(now)})

    def describe(some: Features) -> float:
        part = acts_of(task, some, d, train)
        return score(grow(part, variables, count()), float(part.visits.sum()), len(variables))

    if used and not tells_something(features, describe, rng):
        return Found(None, missing=f"no rule for {name}: shuffled features would tell as much; learned state by state")
    labels = compressed(features.codes[:, used]) if used else np.zeros(task.n_states, dtype=np.int64)
    cases = (int(labels.max()) + 1) * int(task.n_slots[d])
    if steps.visits.sum() < PER_CASE * cases:
        return Found(None, missing=f"no rule for {name}: too few steps to tell what it does not look at; learned state by state")
    if labels.max() + 1 > MOST_CASES * task.n_states:
        return Found(None, missing=f"no rule for {name}: it looks at almost everything; learned state by state")
    if differs(labels, task.n_states, steps, rng):
        return Found(None, missing=f"no rule for {name}: it acts differently where the features are alike; learned state by state")
    unused = [one for i, one in enumerate(features.names) if i not in used]
    looks = f"looks at {', '.join(features.names[i] for i in used)}" if used else "acts alike everywhere"
    text = f"{name} {looks}" + (f"; not at {', '.join(unused)}" if used and unused else "")
    return Found(labels, (measured(name, text, tree, steps, others, task.n_actions, len(variables)),))


def acts_of(task: Task, features: Features, d: int, counts: Counts) -> Steps:
    """Return what an agent did, as its rule sees it: given the features of the state, and the slot."""
    n = task.n_states
    begin, end = int(task.first_slot[d]), int(task.first_slot[d] + task.n_slots[d])
    found = sp.coo_array(counts.agents[begin * n : end * n])
    slot, state = np.divmod(found.coords[0].astype(np.int64), n)
    given = np.concatenate([features.codes[state], slot[:, None]], axis=1)
    nothing = np.zeros((len(state), 0), dtype=bool)
    return Steps(given, found.coords[1].astype(np.int64), None, nothing, slot * n + state, found.data.astype(np.float64))


def differs(labels: Ints, n_states: int, steps: Steps, rng: np.random.Generator) -> bool:
    """Return whether an agent acts differently in states of one label (tests of homogeneity, corrected for their number)."""
    slot, state = np.divmod(steps.place, n_states)
    group = slot * (int(labels.max()) + 1) + labels[state]
    present = np.unique(group)
    for one in present:
        here = steps.part(group == one)
        if homogeneity(counts_by(here.place, here.value, here.visits), DRAWS, rng) < ALPHA / len(present):
            return True
    return False
