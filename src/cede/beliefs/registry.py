"""The list of all kinds of belief. Settings, files, the command line and the documents read it.

A new kind is a file in this package and its line in `KINDS`. Its formulas reach compiled code through `dispatch`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cede._kernels.compiling import Kernel, kernel
from cede.beliefs.appendix import APPENDIX
from cede.beliefs.bernstein import BERNSTEIN
from cede.beliefs.calibrated import CALIBRATED
from cede.beliefs.frequencies import FREQUENCIES
from cede.beliefs.kind import BeliefKind, Use
from cede.beliefs.kl import KL, KL_VALUE
from cede.beliefs.known import KNOWN
from cede.beliefs.posterior import POSTERIOR
from cede.beliefs.printed import PRINTED
from cede.beliefs.weissman import WEISSMAN

KINDS: tuple[BeliefKind, ...] = (PRINTED, APPENDIX, BERNSTEIN, KL, KL_VALUE, CALIBRATED, WEISSMAN, POSTERIOR, FREQUENCIES, KNOWN)

BY_NAME = {kind.name: kind for kind in KINDS}
SETS = tuple(kind for kind in KINDS if kind.is_set)
CODES = {kind.name: code for code, kind in enumerate(SETS)}
NO_SETS = -1  # code of beliefs that are no sets


def code_of(name: str | None) -> int:
    """Return the code of a kind of belief in compiled code. None: there are no sets."""
    return NO_SETS if name is None else CODES.get(name, NO_SETS)


def sets_that_allow(*uses: Use) -> tuple[str, ...]:
    """Return the names of the sets that may be used for all of these."""
    return tuple(kind.name for kind in SETS if kind.allows.issuperset(uses))


def dispatch(name: str, arguments: str, formulas: list[Callable[..., Any]]) -> Kernel:
    """Return the kernel name(kind, arguments) that calls formulas[kind], and returns 0 for NO_SETS.

    Compiled code cannot index a list of functions, so this writes and compiles

        def name(kind, arguments):
            if kind == 0:
                return formula_0(arguments)
            ...
            return 0.0
    """
    lines = [f"def {name}(kind, {arguments}):", '    """Call the formula of a kind of belief. See registry.py: dispatch."""']
    for code in range(len(formulas)):
        lines += [f"    if kind == {code}:", f"        return formula_{code}({arguments})"]
    scope: dict[str, Any] = {"__name__": __name__, **{f"formula_{code}": formula for code, formula in enumerate(formulas)}}
    exec(compile("\n".join([*lines, "    return 0.0", ""]), __file__, "exec"), scope)
    return kernel(scope[name])


constant_of = dispatch("constant_of", "steps, rows, outcomes, values, delta", [kind.constant for kind in SETS if kind.constant])
width_of = dispatch("width_of", "visits, constant, scale", [kind.width for kind in SETS if kind.width])

IS_KL = tuple(int(kind.form == "kl") for kind in SETS)
LINEAR = tuple(kind.linear for kind in SETS)


@kernel
def form_of(kind, scale):
    """Return `kl` and `linear` of a belief. The width of intervals has the square of the scale, so `linear` is divided by it."""
    if kind < 0:
        return np.int64(0), 0.0
    return IS_KL[kind], LINEAR[kind] / scale if scale > 0.0 else 0.0
