"""Rules in words: what a feature of the next state depends on, and how."""

from collections.abc import Sequence

import numpy as np

from cede.beliefs.trees import Leaf, Tree, Variable, leaves

MOST_LINES = 8  # of one rule
MOST_VALUES = 6  # of one leaf


def used_variables(tree: Tree) -> set[int]:
    """Return the variables that a tree tests."""
    return set() if isinstance(tree, Leaf) else {tree.variable}.union(*(used_variables(child) for child in tree.children))


def paths(tree: Tree, before: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Leaf]]:
    """Return every path through a tree: (conditions, leaf)."""
    if isinstance(tree, Leaf):
        return [(before, tree)]
    return [path for says, child in zip(tree.says, tree.children, strict=True) for path in paths(child, (*before, says))]


def conditions(tree: Tree, leaf: Leaf) -> str:
    """Return in words where a leaf holds. If several paths lead to it, return what they have in common."""
    ways = [before for before, other in paths(tree) if other.number == leaf.number]
    parts = list(dict.fromkeys(says for says in ways[-1] if all(says in way for way in ways)))
    if len(ways) > 1:
        return "elsewhere" + (f", if {' and '.join(parts)}" if parts else "")
    return f"where {' and '.join(parts)}" if parts else "always"


def what_comes(name: str, leaf: Leaf, variables: Sequence[Variable]) -> str:
    """Return in words which outcomes a leaf has. name: of the feature."""
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
    """Return the rule of a feature in words: a line with what it depends on, and one for each outcome. name: of the feature."""
    used = list(dict.fromkeys(variables[v].name for v in sorted(used_variables(tree))))
    copied = {variables[leaf.copied].name for leaf in leaves(tree) if leaf.kind == "copy"}
    changed = {name for leaf in leaves(tree) if leaf.kind == "change"}
    causes = [*used, *(cause for cause in sorted(copied | changed) if cause not in used)]
    lines: dict[str, list[str]] = {}
    for leaf in sorted(leaves(tree), key=lambda leaf: not leaf.certain):
        lines.setdefault(what_comes(name, leaf, variables), []).append(conditions(tree, leaf))
    listed = [f"  {what} {', or '.join(where)}" for what, where in lines.items()]
    if len(listed) > MOST_LINES:
        listed = [*listed[: MOST_LINES - 1], f"  ... and {len(listed) - MOST_LINES + 1} more"]
    return "\n".join([f"{name}' depends on {', '.join(causes) or 'nothing'}", *listed])
