"""One problem under comparison: what is asked of cede, what the reference says, and what differs."""

from dataclasses import dataclass

import numpy as np

from audit.problems import Script
from audit.reference import model_of, scale_of

CLOSE = 1e-9  # relative to the largest sum of costs that the problem allows


@dataclass(frozen=True)
class Difference:
    """Something that cede answers otherwise than the reference."""

    kind: str
    what: str
    snippet: str
    size: float  # relative; infinite for an error


class Session:
    """Compares cede with the reference on one problem, and keeps what was compared.

    compared: how often each kind was compared. largest: the largest difference of each kind. found: what is beyond rounding.
    refused: how often a documented refusal was met, by what it says. gave_up: where the reference itself found no answer.
    part_of: which part of the comparison each finding belongs to, by its id.
    """

    def __init__(self, problem):
        self.problem = problem
        self.model = model_of(problem)
        self.scale = scale_of(self.model) or 1.0
        self.script = Script(problem)
        self.plain = len(self.script.lines)
        self.compared, self.largest, self.found, self.refused, self.gave_up, self.part_of = {}, {}, [], {}, {}, {}
        self.begin(0)

    def begin(self, part):
        """Begin a part of the comparison: with dice of its own, and nothing in the script but the problem."""
        self.rng = np.random.default_rng([self.problem.seed, self.problem.number, 4, part])
        del self.script.lines[self.plain :]

    def same(self, kind, expression, wanted, *, scale=None, close=CLOSE, where=None, model=None):
        """Compare what an expression gives with what it should, up to rounding.

        scale: what rounding is relative to. where: a mask of the places that count. model: what is solved, if not the problem
        itself. Return whether they agree.
        """
        try:
            got = np.asarray(self.script.get(expression), dtype=float)
        except Exception as error:
            return self.failed(kind, expression, error, model)
        wanted = np.asarray(wanted, dtype=float)
        if got.shape != wanted.shape:
            return self.differs(kind, expression, wanted, f"shape {got.shape}, not {wanted.shape}", np.inf)
        if where is not None:
            got, wanted = got[where], wanted[where]
        if got.size == 0:
            return True
        with np.errstate(invalid="ignore"):
            apart = np.where(got == wanted, 0.0, np.abs(got - wanted)) / (self.scale if scale is None else scale)
        apart = np.where(np.isnan(apart), np.inf, apart)
        size = float(apart.max())
        self.note(kind, size)
        if size <= close:
            return True
        place = np.unravel_index(int(apart.argmax()), apart.shape)
        return self.differs(kind, expression, wanted, f"{got[place]!r}, not {wanted[place]!r}", size)

    def at_most(self, kind, expression, got, most, *, scale=None, close=CLOSE):
        """Check that a number, found by the reference for what cede answered, is not above another one."""
        size = (float(got) - float(most)) / (self.scale if scale is None else scale)
        size = max(size, 0.0) if not np.isnan(size) else np.inf
        self.note(kind, size)
        return size <= close or self.differs(kind, expression, float(most), f"{got!r}, at most {most!r}", size)

    def note(self, kind, size):
        self.compared[kind] = self.compared.get(kind, 0) + 1
        self.largest[kind] = max(self.largest.get(kind, 0.0), size if np.isfinite(size) else 0.0)

    def differs(self, kind, expression, wanted, what, size):
        told = wanted.tolist() if isinstance(wanted, np.ndarray) else wanted
        self.found.append(Difference(kind, f"{expression} is {what}", self.script.snippet(expression, told), size))
        return False

    def failed(self, kind, expression, error, model=None):
        """Note an error: something found, unless it is a documented refusal."""
        self.note(kind, 0.0)
        why = self.documented(error, self.model if model is None else model)
        if why:
            self.refused[why] = self.refused.get(why, 0) + 1
            return False
        return self.differs(kind, expression, None, f"{type(error).__name__}: {error}", np.inf)

    def documented(self, error, model):
        """Return which documented refusal an error is, or None."""
        if self.problem.averages and "apart, must be connected" in str(error):
            from audit.averages import end_components

            if end_components(model) > 1:
                return "averages of a problem that is not connected"
        return None

    def run(self, kind, line):
        """Execute a line; return whether it ran."""
        try:
            self.script.run(line)
            return True
        except Exception as error:
            self.script.lines.append(line)
            self.failed(kind, "None", error)
            self.script.lines.pop()
            return False

    def refuses(self, kind, line):
        """Check that a line is refused."""
        self.note(kind, 0.0)
        try:
            exec(line, self.script.names)
        except ValueError:
            return
        self.differs(kind, line, "a ValueError", "accepted", np.inf)
