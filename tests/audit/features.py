"""The features that problems are made of, and which of them cannot be had together."""

from functools import lru_cache
from itertools import combinations

import numpy as np

# One of each group is chosen for every problem; the first is the plain case.
GROUPS = {
    "time": ("finite", "finite discounted", "discounted", "discounted near 1", "average"),
    "costs": ("known costs", "learned costs"),
    "team": ("some agents", "one agent", "six agents"),
    "unit": ("unit 1", "unit tiny", "unit huge"),
}
# Each of these is there or not.
EXTRAS = (
    "random costs",
    "arrival costs",
    "ends",
    "agents by time",
    "agents by previous agent",
    "environment by time",
    "take-over delays",
    "own take-over policy",
    "structure",
    "known agents",
    "known environment",
    "infinite hand-overs",
    "locks",
    "unreachable states",
    "unreachable agents",
    "one state",
    "ties",
    "costs by state",
    "negative costs",
    "learned control costs",
    "learned hand-over costs",
)
NO_HORIZON = ("discounted", "discounted near 1", "average")
NEEDS = {"own take-over policy": ("take-over delays",), "unreachable agents": ("infinite hand-overs",)}

# Documented refusals, and what is no problem by its meaning. (feature, other feature): why.
EXCLUDED = {
    **{("agents by time", time): "Task: varies_with 'time' needs a horizon" for time in NO_HORIZON},
    **{("environment by time", time): "Task: periods need a horizon" for time in NO_HORIZON},
    ("ends", "average"): "Task: averages have no end",
    ("agents by previous agent", "take-over delays"): "Task: varies_with 'prev_agent' is refused in a team with takeover_delay",
    ("agents by previous agent", "own take-over policy"): "Task: varies_with 'prev_agent' is refused in a team with takeover_delay",
    ("ends", "one state"): "Task: terminal must not hold all states",
    ("unreachable states", "one state"): "the start is reachable",
    ("one agent", "infinite hand-overs"): "there are no hand-overs",
    ("one agent", "unreachable agents"): "the start agent is reachable",
    ("one agent", "locks"): "there are no hand-overs",
    ("one agent", "take-over delays"): "there are no hand-overs",
    ("one agent", "own take-over policy"): "there are no hand-overs",
}
EXCLUDED = {tuple(sorted(pair)): why for pair, why in EXCLUDED.items()}
FEATURES = (*(name for names in GROUPS.values() for name in names), *EXTRAS)
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}


def together(one, other):
    """Return whether two features can be had in one problem."""
    if one in GROUP_OF and GROUP_OF[one] == GROUP_OF.get(other):
        return False
    return tuple(sorted((one, other))) not in EXCLUDED


PAIRS = tuple(pair for pair in combinations(FEATURES, 2) if together(*pair))


def with_needed(chosen):
    """Return features with those that they need."""
    return {*chosen, *(need for name in chosen for need in NEEDS.get(name, ()))}


def fits(chosen):
    """Return whether all of some features can be had together."""
    alone = {"one agent", "agents by time", "agents by previous agent"} <= set(chosen)  # an agent varies with one of them
    return not alone and all(together(*pair) for pair in combinations(sorted(chosen), 2))


@lru_cache(maxsize=4)
def order_of_pairs(seed, round_):
    return np.random.default_rng([seed, round_, 1]).permutation(len(PAIRS))


def features_of(seed, number):
    """Choose the features of a problem: one pair, each in its turn, and others at random.

    All pairs come once before any comes again, in an order that follows from the seed.
    """
    round_, place = divmod(number, len(PAIRS))
    pair = PAIRS[order_of_pairs(seed, round_)[place]]
    chosen = with_needed(pair)
    rng = np.random.default_rng([seed, number, 2])
    for group in rng.permutation(list(GROUPS)):
        if not any(GROUP_OF.get(name) == group for name in chosen):
            names = GROUPS[group]
            weights = np.array([len(names), *np.ones(len(names) - 1)]) if group != "time" else np.ones(len(names))
            order = rng.choice(len(names), len(names), replace=False, p=weights / weights.sum())
            chosen.add(next(names[i] for i in order if fits({*chosen, names[i]})))
    for name in rng.permutation(EXTRAS):
        more = with_needed({*chosen, str(name)})
        if rng.random() < 0.25 and fits(more):
            chosen = more
    return frozenset(chosen)
