"""Array layout of a task for kernels and counts: the policy of each agent, its tables, the weight of later costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints

VariesWith = Literal["time", "prev_agent"] | None

# What a policy varies with, as compiled code reads it: the same numbers as in _kernels/problem.py, which a test compares.
# They are repeated here so that describing a problem does not load Numba.
CONSTANT, BY_TIME, BY_PREV_AGENT = 0, 1, 2
KIND: dict[VariesWith, int] = {None: CONSTANT, "time": BY_TIME, "prev_agent": BY_PREV_AGENT}


def checked_varies_with(owner: str, value: Any, n_agents: int, horizon: int | None) -> tuple[VariesWith, ...]:
    """Check `varies_with` of each agent, and return it, (D,). None: no policy varies."""
    unchecked = (None,) * n_agents if value is None else value
    result = tuple(check.items(owner, "varies_with", unchecked, "None, 'time' or 'prev_agent' for each agent"))
    if len(result) != n_agents:
        check.fail(owner, "the length of varies_with", len(result), str(n_agents))
    for i, kind in enumerate(result):
        check.choice(owner, f"varies_with[{i}]", kind, tuple(KIND))
        if kind == "time" and horizon is None:
            expected = "None or 'prev_agent' without a horizon: there is no time of an episode"
            check.fail(owner, f"varies_with[{i}]", "'time'", expected)
    return result


@dataclass(frozen=True, eq=False)
class Layout:
    """Arrays that follow from a task of D agents who act by T policies. `Task.layout` returns it.

    A slot is one (S, A) table of a policy. A policy has one slot; L slots if it varies with time; D slots if it varies with the
    previous agent. The slots of all policies lie one after the other in one array.
    """

    aim: Ints  # (D,) the member who has control or is getting it while each agent is in control; a hand-over changes this
    n_slots: Ints  # (T,) number of slots of each policy
    first_slot: Ints  # (T,) first slot of each policy
    slot: Ints  # (D,) first slot of the policy that each agent acts by
    vary: Ints  # (D,) what that policy varies with: CONSTANT, BY_TIME or BY_PREV_AGENT
    factor: float  # weight of a cost one step later: the discount, or 1
    left: Floats  # (L + 1,) the sum of a cost of 1 in every step from t on; empty where there is no horizon

    def slots(self, policy: int) -> slice:
        """Return the slots of a policy."""
        first = int(self.first_slot[policy])
        return slice(first, first + int(self.n_slots[policy]))


def layout_of(
    aim: Sequence[int],
    table: NDArray[np.int64],
    varies_with: Sequence[VariesWith],
    horizon: int | None,
    discount: float | None,
) -> Layout:
    """Return the layout of a task. aim, table, varies_with: (D,), of each agent (`Modes`)."""
    sizes: dict[VariesWith, int] = {None: 1, "time": horizon or 1, "prev_agent": len(table)}
    of_policy = [varies_with[int((table == i).argmax())] for i in range(int(table.max()) + 1)]
    n_slots = np.array([sizes[kind] for kind in of_policy], dtype=np.int64)
    first_slot = n_slots.cumsum() - n_slots
    factor = 1.0 if discount is None else discount
    left = np.zeros(0 if horizon is None else horizon + 1)
    for t in range(len(left) - 2, -1, -1):
        left[t] = 1.0 + factor * left[t + 1]
    arrays: dict[str, Any] = {
        "aim": np.array(aim, dtype=np.int64),
        "n_slots": n_slots,
        "first_slot": first_slot,
        "slot": first_slot[table],
        "vary": np.array([KIND[kind] for kind in varies_with], dtype=np.int64),
        "left": left,
    }
    for array in arrays.values():
        array.setflags(write=False)
    return Layout(factor=factor, **arrays)
