"""The key of a stored run changes with every module that the run imports, and not with others."""

import ast
import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cede.experiments import cache
from cede.experiments.catalogue import FIGURES
from cede.experiments.figure import Options

SOURCE = Path(__file__).parent.parent.parent / "src"
TINY = {"episodes": 2, "points": 2}  # of those arguments that a part has


def python(code: str, source: Path, given: object) -> str:
    """Run code in a process of its own that imports cede from a folder; returns what it prints. Its input is JSON."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    options = {"input": json.dumps(given), "env": environment, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", code], check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@functools.cache
def different_runs(name: str) -> list[tuple[str, dict]]:
    """The first part of a figure in every world and with every function, made tiny."""
    found = {}
    for part in FIGURES[name].parts(Options(quick=True, episodes=2, repeats=1)):
        arguments = {key: TINY.get(key, value) for key, value in part.arguments.items()}
        found.setdefault((part.function, arguments.get("world")), (part.function, arguments))
    return list(found.values())


IMPORTED = """
import json, sys
from cede.experiments.figure import Part
for function, arguments in json.load(sys.stdin):
    Part(function, arguments, 1, "").run(lambda done: None)
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "cede"]))
"""

# For each file: add a constant to it, compute the keys of all figures, put it back. Prints the figures whose keys all changed.
CHANGED = """
import json, pathlib, sys
import cede
from cede.experiments import cache
from cede.experiments.figure import Part

source, runs, files = json.load(sys.stdin)
assert pathlib.Path(cede.__file__).is_relative_to(source)
parts = {name: [Part(function, arguments, 1, "") for function, arguments in runs[name]] for name in runs}
cached = [cache.code_digest, cache.file_digest]  # a constant changes no import: those are read once

def keys():
    for function in cached:
        function.cache_clear()
    return {name: [part.key for part in parts[name]] for name in parts}

before, changed = keys(), {}
assert before == keys()
for file in files:
    path = pathlib.Path(source, file)
    text = path.read_bytes()
    path.write_bytes(text + b"A_NEW_CONSTANT = 1" + bytes([10]))
    after = keys()
    changed[file] = [name for name in parts if all(old != new for old, new in zip(before[name], after[name]))]
    assert all(before[name] == after[name] for name in set(parts) - set(changed[file]))
    path.write_bytes(text)
print(json.dumps(changed))
"""

NAMES = ["never-worse", "limits", "automation", "promises"]
UNRELATED = ["cli/learn.py", "experiments/report.py", "experiments/claims/verdicts.py", "experiments/figures/overview.py"]


def file_of(module: str) -> str:
    return cache.source_file(module).relative_to(cache.PACKAGE.parent).as_posix()


@pytest.fixture(scope="module")
def imported():
    """For each figure: the modules of cede in sys.modules after its runs, in tiny, in a process of their own."""
    return {name: json.loads(python(IMPORTED, SOURCE, different_runs(name))) for name in NAMES}


@pytest.fixture(scope="module")
def changed(imported, tmp_path_factory):
    """For each file: the figures whose keys change when a constant is added to it, in a copy of the source tree."""
    copy = tmp_path_factory.mktemp("copy") / "src"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    files = {file_of(module) for name in NAMES for module in imported[name]} | {f"cede/{name}" for name in UNRELATED}
    return json.loads(python(CHANGED, copy, [str(copy), {name: different_runs(name) for name in NAMES}, sorted(files)]))


@pytest.mark.parametrize("name", NAMES)
def test_keys_change_with_every_module_that_the_runs_import(imported, changed, name):
    assert len(imported[name]) > 40
    assert [module for module in imported[name] if name not in changed[file_of(module)]] == [
        module for module in imported[name] if module in cache.NOT_DIGESTED
    ]


@pytest.mark.parametrize("name", UNRELATED)
def test_keys_do_not_change_with_modules_that_no_run_imports(changed, name):
    assert changed[f"cede/{name}"] == []


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package of the same name, in which imports take every form."""
    files = {
        "__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from cede.public import name as name\n",
        "public.py": "",
        "unused.py": "",
        "a/__init__.py": "",
        "a/plain.py": "import cede.b.one as one\n",
        "a/inside.py": "def f():\n    if f:\n        from cede.b import two\n",
        "a/relative.py": "from . import plain\nfrom ..b.two import x\n",
        "a/takes_public.py": "from cede import name\n",
        "a/whole.py": "import cede\n",
        "a/version.py": "from cede import __version__\nimport numpy\nfrom numpy import linalg\n",
        "a/tried.py": "try:\n    import cede.a.plain as plain\nexcept ImportError:\n    import cede.b.two as two\n",
        "a/typed.py": "if typing.TYPE_CHECKING:\n    import cede.unused\nelse:\n    import cede.b.one as one\n",
        "a/in_a_circle.py": "import cede.a.plain as p\nfrom cede.a import in_a_circle\n",
        "b/__init__.py": "",
        "b/one.py": "",
        "b/two.py": "x = 1\n",
        "b/table.csv": "1\n",
        "b/data/more.csv": "1\n",
        "b/__pycache__/one.cpython-311.pyc": "",
        "b/inner/__init__.py": "",
        "b/inner/other.csv": "",
    }
    for name, text in files.items():
        path = tmp_path / "cede" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(cache, "PACKAGE", tmp_path / "cede")
    forget()
    yield tmp_path / "cede"
    monkeypatch.undo()
    forget()


def forget():
    for function in (cache.code_digest, cache.imported_by, cache.source_file, cache.file_digest):
        function.cache_clear()


@pytest.mark.parametrize(
    ("module", "reached"),
    [
        ("a.plain", {"b", "b.one"}),
        ("a.inside", {"b", "b.two"}),
        ("a.relative", {"a.plain", "b", "b.one", "b.two"}),
        ("a.takes_public", {"public"}),
        ("a.whole", {"public"}),
        ("a.version", set()),
        ("a.tried", {"a.plain", "b", "b.one", "b.two"}),
        ("a.typed", {"b", "b.one"}),
        ("a.in_a_circle", {"a.plain", "b", "b.one"}),
    ],
)
def test_imports_are_found_in_every_form(package, module, reached):
    assert cache.reached_from(f"cede.{module}") == {"cede", "cede.a", f"cede.{module}", *(f"cede.{name}" for name in reached)}


def test_data_files_of_packages_that_are_reached_count(package):
    def digest():
        forget()
        return cache.code_digest("cede.a.plain")

    before = digest()
    for name, counts in (("b/table.csv", True), ("b/data/more.csv", True), ("b/inner/other.csv", False), ("b/two.py", False)):
        text = (package / name).read_text()
        (package / name).write_text(f"{text}2\n")
        assert (digest() != before) == counts, name
        (package / name).write_text(text)
    (package / "b" / "__pycache__" / "new.nbi").write_text("")
    assert digest() == before
    (package / "b" / "table.csv").rename(package / "b" / "other.csv")
    assert digest() != before


def test_a_module_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"code_digest: module is 'cede\.nothing', must be a module of cede"):
        cache.code_digest("cede.nothing")


def test_every_part_of_every_figure_has_a_digest_and_every_exception_is_needed():
    modules = {part.module for figure in FIGURES.values() for part in figure.parts(Options(quick=True))}
    reached = {name for module in modules for name in cache.reached_from(module)}
    assert reached >= cache.NOT_DIGESTED.keys()
    assert all(len(cache.code_digest(module)) == 64 for module in modules)


def test_imports_among_experiments_have_no_circle_and_stand_at_the_top():
    """No module imports cede inside of a function, except what needs an extra, and none reaches itself."""
    for path in (cache.PACKAGE / "experiments").rglob("*.py"):
        tree = ast.parse(path.read_text())
        inner = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) and node not in tree.body]
        late = [name for name in cache.imported_names(inner, "cede.experiments") if name.startswith("cede")]
        assert not [name for name in late if not name.startswith("cede.gym.")], path
        parts = path.relative_to(cache.PACKAGE.parent).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        direct = {name for name in cache.imported_by(module) if cache.source_file(name).name != "__init__.py"}
        assert module not in {name for start in direct for name in cache.reached_from(start)}, path
