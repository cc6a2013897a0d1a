"""Says rules in words: what a feature of the next state depends on, and how."""

from collections.abc import Sequence

import numpy as np

from cede.learning.rules import Leaf, Tree, Variable, leaves, used_variables

MOST_LINES = 8  # of one rule
MOST_VALUES = 6  # of one leaf


def paths(tree: Tree, before: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Leaf]]:
    """Return every way through a tree: (conditions, leaf)."""
    if isinstance(tree, Leaf):
        return [(before, tree)]
    return [found for says, child in zip(tree.says, tree.children, strict=True) for found in paths(child, (*before, says))]


def conditions(tree: Tree, leaf: Leaf) -> str:
    """Return in words where a leaf holds. If several ways lead to it, what they have in common is said."""
    ways = [before for before, other in paths(tree) if other.number == leaf.number]
    common = [says for says in ways[-1] if all(says in way for way in ways)]
    parts = list(dict.fromkeys(common))
    if len(ways) > 1:
        return "elsewhere" + (f", if {' and '.join(parts)}" if parts else "")
    return f"where {' and '.join(parts)}" if parts else "always"


def what_comes(name: str, leaf: Leaf, variables: Sequence[Variable]) -> str:
    """Return in words what comes in a leaf. name: of the feature, as it was before the step."""
    if leaf.kind == "copy":
        copied = variables[leaf.copied].name
        return f"{name}' is a copy of {copied}" if copied != name else f"{name}' stays {name}"
    if leaf.kind == "value":
        words = [str(variables[0].values[label]) for label in leaf.labels]
    else:
        words = [name if not label else f"{name} {'+' if label > 0 else '-'} {abs(label)}" for label in leaf.labels]
    if leaf.certain:
        return f"{name}' is {words[0]}"
    seen = [i for i in np.argsort(-leaf.counts, kind="stable") if leaf.counts[i] > 0]
    listed = [f"{words[i]} ({leaf.counts[i] / leaf.visits:.0%})" for i in seen[:MOST_VALUES]]
    more = ["..."] if len(seen) > MOST_VALUES else []
    return f"{name}' is {', '.join([*listed, *more])}" + (", different from place to place" if leaf.apart else "")


def tell(name: str, tree: Tree, variables: Sequence[Variable]) -> str:
    """Return a rule in words, one line for what it depends on and one for each thing that may come.

    name: of the feature, as it was before the step.
    """
    used = list(dict.fromkeys(variables[v].name for v in sorted(used_variables(tree))))
    copied = {variables[leaf.copied].name for leaf in leaves(tree) if leaf.kind == "copy"}
    changed = {name for leaf in leaves(tree) if leaf.kind == "change"}
    causes = [*used, *(one for one in sorted(copied | changed) if one not in used)]
    head = f"{name}' depends on {', '.join(causes)}" if causes else f"{name}' depends on nothing"
    lines: dict[str, list[str]] = {}
    for leaf in sorted(leaves(tree), key=lambda leaf: not leaf.certain):
        lines.setdefault(what_comes(name, leaf, variables), []).append(conditions(tree, leaf))
    told = [f"  {what} {', or '.join(where)}" for what, where in lines.items()]
    if len(told) > MOST_LINES:
        told = [*told[: MOST_LINES - 1], f"  ... and {len(told) - MOST_LINES + 1} more"]
    return "\n".join([head, *told])
