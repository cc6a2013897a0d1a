"""The house rules: imports point one way, names are documented, start-up is light, the documents run."""

import ast
import doctest
import hashlib
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cede
from cede.cli import app

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "cede"

# A package may import from its own rank and from those above it in this list.
RANKS = [
    {"_base"},
    {"_kernels", "problem"},
    {"planning"},
    {"learning"},
    {"insight", "fleet"},
    {"worlds", "gym"},
    {"experiments"},
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


def test_imports_point_one_way():
    for path in SOURCE.rglob("*.py"):
        here = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if here == "__init__":
            continue
        for module in imports_of(path):
            assert rank(module) <= rank(here), f"{here} imports {module}"


def test_public_names():
    assert len(cede.__all__) == len(set(cede.__all__))
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


def test_importing_compiles_nothing():
    code = """
from cede import _kernels, worlds
from cede.learning import algorithms as learners
print(sum(len(getattr(kernel, "signatures", [])) for kernel in vars(_kernels).values() if callable(kernel)))
"""
    assert run(code).strip() == "0"


def test_kernels_work_without_a_place_for_a_cache():
    """A read-only installation: numba finds no directory to write to, and compiles in memory."""
    code = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
from cede import _kernels
import numpy as np
print(_kernels.first_outside(np.array([0, 5]), 3))
"""
    assert run(code).strip() == "1"


def kernels():
    from cede import _kernels

    for path in (SOURCE / "_kernels").glob("*.py"):
        module = importlib.import_module(f"{_kernels.__name__}.{path.stem}")
        for value in vars(module).values():
            if hasattr(value, "py_func") and value.py_func.__module__ == module.__name__:
                yield value


def test_kernels_have_names_of_their_own():
    """numba's cache on disk tells kernels of one file apart by name and first line, not by how they are compiled."""
    names = [(kernel.py_func.__module__, kernel.py_func.__qualname__) for kernel in kernels()]
    assert len(names) > 30
    assert len(names) == len(set(names))


def test_an_edit_of_any_kernel_compiles_all_anew():
    """numba's cache on disk does not see changes in other files than a kernel's own: the names must."""
    from cede._kernels import compiling

    digest = hashlib.sha256()
    for path in sorted((SOURCE / "_kernels").glob("*.py")):
        digest.update(path.read_bytes())
    assert digest.hexdigest()[:12] == compiling.DIGEST
    assert all(kernel.py_func.__qualname__.endswith(compiling.DIGEST) for kernel in kernels())


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
    public = set(cede.__all__) - {"__version__", "gym", "worlds", "engines"}
    assert public | set(cede.gym.__all__) | set(cede.worlds.__all__) <= listed
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    page = (ROOT / "docs" / "command-line.md").read_text()
    assert all(f"`cede {command}" in page for command in commands), commands
    site = (ROOT / "mkdocs.yml").read_text()
    for path in (ROOT / "docs").rglob("*.md"):
        assert path.relative_to(ROOT / "docs").as_posix() in site, path


def test_paper_map_names_things_that_exist():
    text = (ROOT / "docs" / "paper-map.md").read_text()
    names = re.findall(r"`(?:src/)?cede/([\w/]+)\.py: (\w+)`", text)
    tests = re.findall(r"`tests/([\w/]+)\.py: (\w+)`", text)
    assert len(names) > 10
    assert len(tests) > 10
    for module, name in names:
        assert re.search(rf"\b(def|class) {name}\b", (SOURCE / f"{module}.py").read_text()), (module, name)
    for module, name in tests:
        assert f"def {name}(" in (ROOT / "tests" / f"{module}.py").read_text(), (module, name)


def test_changelog_knows_this_version():
    assert f"## {cede.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_public_name_is_hidden_by_a_module():
    """`import cede.x` makes the module an attribute of the package, where it would take the place of a public name."""
    modules = {path.stem for path in SOURCE.glob("*.py")} | {path.name for path in SOURCE.iterdir() if path.is_dir()}
    assert modules & set(cede.__all__) <= {"engines", "gym", "worlds"}
