"""The house rules: imports point one way, names are documented, start-up is light, the documents run."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import cede
from cede.cli import COMMANDS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "cede"

# A package may import from its own rank and from those above it in this list.
RANKS = [
    {"_base"},
    {"_kernels", "problem", "features"},
    {"steps"},
    {"rows"},
    {"beliefs"},
    {"planning"},
    {"learners"},
    {"insight", "fleet"},
    {"worlds", "gym"},
    {"comparison", "testing"},
    {"client"},
    {"serve"},
    {"cli"},
]


def rank(module: str) -> int:
    top = module.removeprefix("cede.").split(".")[0]
    return next(i for i, names in enumerate(RANKS) if top in names)


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "cede":
            whole = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "cede" else [node.module]
            found |= {name for name in whole if name != "cede.__version__"}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("cede.")}
    return found


def modules_imported_by(path: Path) -> set[str]:
    """Modules, also where they are imported by name from their package; without what only type checkers import."""
    found, tree = set(), ast.parse(path.read_text())
    typed = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    skipped = {id(node) for block in typed for node in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) not in skipped and isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cede"):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                is_module = (SOURCE.parent / (whole.replace(".", "/") + ".py")).exists()
                found.add(whole if is_module else node.module)
    return found


def test_imports_point_one_way():
    for path in SOURCE.rglob("*.py"):
        here = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if here == "__init__":
            continue
        for module in imports_of(path):
            assert rank(module) <= rank(here), f"{here} imports {module}"


def test_public_names():
    assert len(cede.__all__) == len(set(cede.__all__))
    assert len(cede.__all__) <= 42  # forty-one names, six of them modules, and the version
    assert all(hasattr(cede.insight, name) for name in cede.insight.__all__)
    for name in cede.__all__:
        assert getattr(cede, name) is not None
    typed = re.findall(r"import (\w+) as (\w+)", (SOURCE / "__init__.py").read_text())
    assert {b for a, b in typed if a == b} == set(cede.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        cede.nothing  # noqa: B018
    assert dir(cede) == sorted(cede.__all__)


def test_every_public_name_and_every_public_function_is_documented():
    for name in set(cede.__all__) - {"__version__"}:
        assert getattr(cede, name).__doc__, name
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), path


def run(code: str, **options) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, **options).stdout


def test_importing_loads_nothing_heavy():
    heavy = "{'numpy', 'scipy', 'numba', 'matplotlib', 'rich'} & set(sys.modules)"
    assert run(f"import sys, cede; print({heavy})").strip() == "set()"
    assert run(f"import sys, cede.cli; print({heavy} - {{'rich'}})").strip() == "set()"


def test_what_is_not_needed_is_not_loaded():
    """A task needs no Numba, a run of one learner no other engine than its own and no processes."""
    assert run("import sys, cede; cede.Task; print('numba' in sys.modules)").strip() == "False"
    code = """
import sys, cede
mdp = cede.worlds.riverswim()
cede.simulate(mdp, cede.ucrl2_mc(mdp.task), 2, progress=False)
print({'multiprocessing', 'ray', 'cede.fleet.ray', 'cede.fleet.workers', 'matplotlib'} & set(sys.modules))
"""
    assert run(code).strip() == "set()"


def test_importing_compiles_nothing():
    code = """
from cede import worlds
from cede.fleet import simulate
from cede._kernels import compiling
from cede.fleet import teams
print(sum(len(kernel.inner.signatures) for kernel in vars(teams).values() if isinstance(kernel, compiling.Kernel)))
"""
    assert run(code).strip() == "0"


def test_kernels_work_without_a_place_for_a_cache():
    """A read-only installation: numba finds no directory to write to, and compiles in memory."""
    code = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
from cede.beliefs.printed import printed_constant
print(round(printed_constant(10.0, 1, 1, 1, 0.5)))
"""
    assert run(code).strip() == "36"


def kernels():
    from cede._kernels.compiling import Kernel, has_compiled_code

    for path in filter(has_compiled_code, SOURCE.rglob("*.py")):
        module = importlib.import_module(".".join(("cede", *path.relative_to(SOURCE).with_suffix("").parts)))
        for value in vars(module).values():
            if isinstance(value, Kernel) and value.py_func.__module__ == module.__name__:
                yield value


def test_kernels_have_names_of_their_own_and_docstrings():
    """numba's cache on disk tells kernels of one file apart by name and first line, not by how they are compiled."""
    names = {kernel.qualname: kernel for kernel in kernels()}
    assert len(names) > 60
    assert len(names) == len({id(kernel) for kernel in kernels()})
    assert all(kernel.__doc__ for kernel in names.values())


def test_an_edit_compiles_anew_what_rests_on_it_and_nothing_else(tmp_path, monkeypatch):
    """numba's cache on disk does not see changes in other files than a kernel's own: the digest in the names must."""
    from cede._kernels import compiling

    copies = [tmp_path / path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if compiling.has_compiled_code(path)]
    for copy in copies:
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes((SOURCE / copy.relative_to(tmp_path)).read_bytes())
    monkeypatch.setattr(compiling, "SOURCE", tmp_path)

    def digests():
        compiling.imported_by.cache_clear()
        compiling.digest_of.cache_clear()
        return {path.relative_to(tmp_path).as_posix(): compiling.digest_of(path) for path in copies}

    before = digests()
    edited = tmp_path / "planning" / "backup.py"
    edited.write_text(edited.read_text() + "\nMORE = 1\n")
    after = digests()
    changed = [name for name in sorted(before) if before[name] != after[name]]
    above = ("fleet/teams", "fleet/workspace", "learners/compiled", "learners/proof", "planning/backup", "planning/fixed_point")
    assert changed == [f"{name}.py" for name in above]
    compiling.imported_by.cache_clear()
    compiling.digest_of.cache_clear()


def test_missing_extra_is_answered_with_the_command(monkeypatch):
    from cede._base import extras

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "cede\[plots\]"'):
        extras.pyplot()


DOCUMENTS = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if "```python" in path.read_text()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_run(document):
    """All code in the documents is executed, in order, as one session for each page."""
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    assert all(block.startswith(">>> ") for block in blocks)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testfile(str(document), module_relative=False, optionflags=flags)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_documents_tell_of_everything():
    """Every public name is in the reference, every command on its page, every page in the site."""
    reference = re.findall(r"^::: (cede\.[\w.]+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    for name in reference:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name
    listed = {name.rpartition(".")[2] for name in reference}
    modules = [cede.encode, cede.gym, cede.insight, cede.worlds]
    public = set(cede.__all__) - {"__version__", "encode", "engines", "gym", "insight", "testing", "worlds"}
    assert public.union({"check_learner"}, *(module.__all__ for module in modules)) <= listed
    page = (ROOT / "docs" / "command-line.md").read_text()
    assert all(f"`cede {command}" in page for command in COMMANDS)
    site = (ROOT / "mkdocs.yml").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name in site, path
    decisions = (ROOT / "docs" / "decisions" / "index.md").read_text()
    for path in (ROOT / "docs" / "decisions").glob("0*.md"):
        number, title = path.read_text().splitlines()[0].removeprefix("# ").split(". ", 1)
        assert f"{number}. [{title}]({path.name})" in decisions, path


def test_paper_map_names_things_that_exist():
    text = (ROOT / "docs" / "paper-map.md").read_text()
    names = re.findall(r"`(cede/[\w/]+|studies/(?!tests)[\w/]+)\.py: (\w+)`", text)
    tests = re.findall(r"`((?:studies/)?tests/[\w/]+)\.py: (\w+)`", text)
    assert len(names) > 10
    assert len(tests) > 10
    for module, name in names:
        file = (SOURCE.parent if module.startswith("cede/") else ROOT) / f"{module}.py"
        assert re.search(rf"\b(def|class) {name}\b", file.read_text()), (module, name)
    for module, name in tests:
        assert f"def {name}(" in (ROOT / f"{module}.py").read_text(), (module, name)


def test_changelog_knows_this_version():
    assert f"## {cede.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_map_is_small_and_says_what_is_where():
    """At most twenty entries at the top, each package with a first sentence; imports among modules have no cycle."""
    entries = [path for path in SOURCE.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= 20
    for path in entries:
        if path.is_dir():
            text = ast.get_docstring(ast.parse((path / "__init__.py").read_text()))
            assert len(text.split("\n")[0]) > 20, path
    graph = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(("cede", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        if name != "cede":
            graph[name] = modules_imported_by(path) - {name}
    done, doing = set(), []

    def visit(name):
        assert name not in doing, [*doing, name]
        if name not in done and name in graph:
            doing.append(name)
            for other in graph[name]:
                visit(other)
            done.add(doing.pop())

    for name in graph:
        visit(name)


def test_tests_mirror_the_source():
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages <= {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}


def test_no_test_reaches_into_private_attributes():
    for path in (ROOT / "tests").rglob("*.py"):
        found = re.findall(r"\b(?:learner|one|other|fleet|task|mdp|plan|arrays)\._[a-z]\w*", path.read_text())
        assert not found, (path, found)


def test_no_public_name_is_hidden_by_a_module():
    """`import cede.x` makes the module an attribute of the package, where it would take the place of a public name."""
    modules = {path.stem for path in SOURCE.glob("*.py")} | {path.name for path in SOURCE.iterdir() if path.is_dir()}
    assert modules & set(cede.__all__) <= {"gym", "insight", "testing", "worlds"}
    assert not {path.stem for path in (SOURCE / "insight").iterdir()} & set(cede.insight.__all__)


# Limits: DESIGN.md asks for chains of at most 20 modules and 15 imports of `learner`. Lines: lower it when code is deleted.
LONGEST_CHAIN, LEARNER_IMPORTS, MOST_LINES = 20, 15, 41_200


def graph_of_imports():
    modules = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(("cede", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        modules[name] = path
    return {name: {m for m in modules_imported_by(path) if m in modules} - {name, "cede"} for name, path in modules.items()}


def test_chains_of_imports_do_not_grow():
    graph = graph_of_imports()

    @cache
    def depth(name):
        return 1 + max((depth(other) for other in graph[name]), default=0)

    assert max(depth(name) for name in graph) <= LONGEST_CHAIN
    assert len(graph["cede.learners.learner"]) <= LEARNER_IMPORTS


def test_a_class_name_occurs_once():
    where = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(path.relative_to(SOURCE).as_posix())
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_the_package_does_not_grow():
    assert sum(len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")) <= MOST_LINES
