"""Where a source file can be changed, and how: every mutant of a file, found in its syntax tree and made in its text."""

import ast
import hashlib
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent / "src" / "cede"

COMPARISONS = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
}
SIGNS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.And: "and",
    ast.Or: "or",
}
OPERATORS = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.And: "or",
    ast.Or: "and",
}
NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "any": "all",
    "all": "any",
    "zeros": "ones",
    "ones": "zeros",
    "floor": "ceil",
    "ceil": "floor",
    "isinf": "isfinite",
    "isfinite": "isinf",
}
QUIET = {
    "strict",
    "dtype",
    "copy",
    "encoding",
    "stacklevel",
    "maxsize",
    "order",
}  # arguments that say what is so anyway, or how fast
SILENT = {"__repr__", "__str__", "__dir__", "draw", "_repr_html_"}  # functions whose result is text or a picture


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str  # within src/cede
    line: int
    start: int  # the place of the change in the text
    end: int
    new: str  # what stands there instead
    change: str  # in words
    where: str  # the function it is in, or "" for what is run on import
    code: str  # the line, without the spaces around it
    lines: tuple = ()  # first and last of its statement, or of the head of it; () for what is run on import
    nth: int = 0  # which one, of equal changes of equal lines

    @property
    def key(self):
        """What tells it apart from all others, also after an edit elsewhere in the file."""
        return f"{self.file} | {self.where} | {self.code} | {self.change}" + (f" | {self.nth}" if self.nth else "")

    def applied(self, text):
        return text[: self.start] + self.new + text[self.end :]


class Finder(ast.NodeVisitor):
    """Walks a tree and collects mutants. Text, annotations, messages, decorators and imports are passed over."""

    def __init__(self, file, text):
        self.file, self.text, self.found, self.inside = file, text, [], []
        self.depth, self.statement = 0, ()
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self.starts, self.lines = starts, text.splitlines()

    def at(self, line, column):
        """The place in the text of a column, which Python counts in bytes."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node):
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def source(self, node):
        start, end = self.span(node)
        return self.text[start:end]

    def add(self, node, start, end, new, change):
        where, code = ".".join(self.inside), self.lines[node.lineno - 1].strip()
        nth = sum((m.where, m.code, m.change) == (where, code, change) for m in self.found)
        lines = self.statement if self.depth else ()
        self.found.append(Mutant(self.file, node.lineno, start, end, new, change, where, code, lines, nth))

    def visit(self, node):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            self.statement = (node.lineno, max(node.lineno, body[0].lineno - 1) if body else node.end_lineno)
        super().visit(node)

    def replace(self, node, new, change=None):
        start, end = self.span(node)
        old = re.sub(r"\s+", " ", self.text[start:end])
        self.add(node, start, end, new, change or f"{old} -> {new}")

    # ------------------------------------------------------------------ what is passed over

    def visit_FunctionDef(self, node):
        if node.name in SILENT or any("overload" in ast.unparse(each) for each in node.decorator_list):
            return
        self.inside.append(node.name)
        for each in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
            self.visit(each)
        self.depth += 1
        self.visit_body(node.body)
        self.depth -= 1
        self.inside.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        self.inside.append(node.name)
        self.visit_body(node.body)
        self.inside.pop()

    def visit_body(self, body):
        for each in body:
            self.visit(each)

    def visit_Raise(self, node):
        """Messages are not counted; that something is raised at all is the test above it."""

    def visit_JoinedStr(self, node):
        """Text."""

    def visit_Import(self, node):
        pass

    visit_ImportFrom = visit_Assert = visit_Import

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node):
        if any(isinstance(target, ast.Name) and target.id in ("__all__", "__slots__") for target in node.targets):
            return
        self.generic_visit(node)

    def visit_If(self, node):
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if not isinstance(node.test, ast.Compare | ast.BoolOp) and not (
            isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        ):
            self.replace(node.test, f"not ({self.source(node.test)})")
        self.generic_visit(node)

    # ------------------------------------------------------------------ what is changed

    def between(self, left, right, sign):
        """The place of an operator between two operands."""
        return self.signs(sign, self.span(left)[1], self.span(right)[0])

    def signs(self, sign, start, end):
        part = re.sub(r"#[^\n]*", lambda m: " " * len(m.group()), self.text[start:end])
        at = part.find(sign)
        return (start + at, start + at + len(sign)) if at >= 0 else None

    def visit_Compare(self, node):
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            sign = SIGNS[type(op)]
            place = self.between(left, right, sign)
            for new in COMPARISONS[type(op)] if place else ():
                self.add(node, *place, new, f"{sign} -> {new}")
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node):
        is_text = any(
            isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
            for each in (node.left, node.right)
        )
        sign = SIGNS.get(type(node.op))
        is_type = not self.depth and isinstance(node.op, ast.BitOr)
        if sign and not is_text and not is_type:
            place = self.between(node.left, node.right, sign)
            if place:
                self.add(node, *place, OPERATORS[type(node.op)], f"{sign} -> {OPERATORS[type(node.op)]}")
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        sign = SIGNS[type(node.op)]
        for left, right in zip(node.values, node.values[1:], strict=False):
            place = self.between(left, right, sign)
            if place:
                self.add(node, *place, OPERATORS[type(node.op)], f"{sign} -> {OPERATORS[type(node.op)]}")
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.Not | ast.USub):
            self.replace(node, f"({self.source(node.operand)})", f"{'not' if isinstance(node.op, ast.Not) else '-'} dropped")
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        sign = SIGNS.get(type(node.op))
        if sign:
            place = self.signs(sign + "=", self.span(node.target)[1], self.span(node.value)[0])
            if place:
                self.add(node, *place, OPERATORS[type(node.op)] + "=", f"{sign}= -> {OPERATORS[type(node.op)]}=")
        self.generic_visit(node)

    def visit_Constant(self, node):
        value = node.value
        if isinstance(value, bool):
            self.replace(node, str(not value))
        elif isinstance(value, int):
            self.replace(node, str(value + 1 if value < 10 or value > 2**40 else value * 10))
            if 1 < value < 10:
                self.replace(node, str(value - 1))
        elif isinstance(value, float):
            self.replace(node, repr(value * 10) if value else "1.0")

    def visit_Return(self, node):
        value = node.value
        if value is not None and not (isinstance(value, ast.Constant) and value.value is None) and not self.in_kernel():
            self.replace(value, "None", "returns None")
        self.generic_visit(node)

    def in_kernel(self):
        return is_kernel(self.file)

    def visit_Expr(self, node):
        value = node.value
        if isinstance(value, ast.Constant):
            return  # a docstring
        if isinstance(value, ast.Call):
            self.replace(node, "pass", "call dropped")
        self.generic_visit(node)

    def visit_Subscript(self, node):
        if isinstance(node.slice, ast.Slice):
            for bound, change in ((node.slice.lower, "+ 1"), (node.slice.upper, "- 1")):
                if bound is not None and not isinstance(bound, ast.Constant):
                    self.replace(bound, f"{self.source(bound)} {change}")
        self.generic_visit(node)

    def visit_Call(self, node):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in NAMES:
            end = self.span(node.func)[1]
            self.add(node, end - len(name), end, NAMES[name], f"{name} -> {NAMES[name]}")
        if name == "range" and node.args and not isinstance(node.args[-1], ast.Constant):
            bound = node.args[min(1, len(node.args) - 1)]
            self.replace(bound, f"{self.source(bound)} - 1")
        if name == "warn" or (name in ("empty", "empty_like", "field") or name.endswith(("Error", "Warning"))):
            return
        if not self.in_kernel():
            for keyword in node.keywords:
                if keyword.arg and name[:1].islower() and keyword.arg not in QUIET:
                    start, end = self.span(keyword)
                    after = re.match(r"\s*,\s*", self.text[end:])
                    before = re.search(r",\s*$", self.text[:start])
                    if after:
                        self.add(node, start, end + after.end(), "", f"{keyword.arg}= dropped")
                    elif before:
                        self.add(node, start - len(before.group()), end, "", f"{keyword.arg}= dropped")
        self.visit(node.func)
        if name == "reshape" and ast.unparse(node.args[0]) == "-1":
            return  # "whatever is left"
        for each in (*node.args, *(keyword.value for keyword in node.keywords if keyword.arg not in QUIET)):
            self.visit(each)


def mutants_of(file, text):
    """Every mutant of a file, in the order of its text; a few of them may not be Python."""
    finder = Finder(file, text)
    finder.visit(ast.parse(text))
    return finder.found


def is_python(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


PART_OF_KERNELS = 0.4  # of what their share would be: each must be compiled


def is_kernel(file):
    """Whether a file of the package holds compiled code."""
    path = SOURCE / file
    return file.startswith("_kernels/") or (path.exists() and bool(re.search(r"^@(kernel|unit|inlined)\b", path.read_text(), re.M)))


def sampled(texts, count, seed):
    """`count` mutants of several files, spread by how many each has; fewer of kernels. texts: by file.

    A mutant's place in the order of its file depends on the seed and on itself alone: an edit elsewhere does not change the choice.
    """
    found = {file: mutants_of(file, text) for file, text in texts.items()}
    part = {file: len(mutants) * (PART_OF_KERNELS if is_kernel(file) else 1.0) for file, mutants in found.items()}
    total, chosen = sum(part.values()), []
    for file, mutants in found.items():
        order = sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed} {mutant.key}".encode()).digest())
        sound = (mutant for mutant in order if is_python(mutant.applied(texts[file])))
        chosen += islice(sound, max(1, round(count * part[file] / total)))
    return chosen
