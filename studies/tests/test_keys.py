"""The key of a stored run changes with every module that the run imports, and not with others."""

import ast
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cede.comparison import code_digest
from studies.catalogue import FIGURES
from studies.figure import NOT_DIGESTED, Options

ROOT = Path(__file__).parents[2]
TINY = {"episodes": 2, "points": 2}  # of those arguments that a part has


def python(code: str, root: Path, given: object) -> str:
    """Run code in a process of its own that imports cede and studies from a checkout; returns what it prints. Its input is JSON."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    options = {"input": json.dumps(given), "env": environment, "cwd": root, "capture_output": True, "text": True}
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
from studies.figure import Part
for function, arguments in json.load(sys.stdin):
    Part(function, arguments, 1, "").run(lambda done: None)
print(json.dumps([name for name in sys.modules if name.split(".")[0] in ("cede", "studies")]))
"""

# For each file: add a constant to it, compute the keys of all figures, put it back. Prints the figures whose keys all changed.
CHANGED = """
import json, pathlib, sys
import cede
import studies
from cede.comparison import code_digest
from studies.figure import Part

root, runs, files = json.load(sys.stdin)
assert all(pathlib.Path(package.__file__).is_relative_to(root) for package in (cede, studies))
parts = {name: [Part(function, arguments, 1, "") for function, arguments in runs[name]] for name in runs}
cached = [code_digest.code_digest, code_digest.file_digest]  # a constant changes no import: those are read once

def keys():
    for function in cached:
        function.cache_clear()
    return {name: [part.key for part in parts[name]] for name in parts}

before, changed = keys(), {}
assert before == keys()
for file in files:
    path = pathlib.Path(root, file)
    text = path.read_bytes()
    path.write_bytes(text + b"A_NEW_CONSTANT = 1" + bytes([10]))
    after = keys()
    changed[file] = [name for name in parts if all(old != new for old, new in zip(before[name], after[name]))]
    assert all(before[name] == after[name] for name in set(parts) - set(changed[file]))
    path.write_bytes(text)
print(json.dumps(changed))
"""

NAMES = ["never-worse", "limits", "automation", "promises"]
UNRELATED = [
    "src/cede/cli/learn.py",
    "src/cede/serve/service.py",
    "studies/report.py",
    "studies/claims/verdicts.py",
    "studies/figures/overview.py",
]


def file_of(module: str) -> str:
    return code_digest.source_file(module, "studies").relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def imported():
    """For each figure: the modules of cede in sys.modules after its runs, in tiny, in a process of their own."""
    return {name: json.loads(python(IMPORTED, ROOT, different_runs(name))) for name in NAMES}


@pytest.fixture(scope="module")
def changed(imported, tmp_path_factory):
    """For each file: the figures whose keys change when a constant is added to it, in a copy of the source tree."""
    copy = tmp_path_factory.mktemp("copy")
    for folder in ("src", "studies"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "results", "tests"))
    files = {file_of(module) for name in NAMES for module in imported[name]} | set(UNRELATED)
    return json.loads(python(CHANGED, copy, [str(copy), {name: different_runs(name) for name in NAMES}, sorted(files)]))


@pytest.mark.parametrize("name", NAMES)
def test_keys_change_with_every_module_that_the_runs_import(imported, changed, name):
    assert len(imported[name]) > 40
    assert [module for module in imported[name] if name not in changed[file_of(module)]] == [
        module for module in imported[name] if module in NOT_DIGESTED | code_digest.NOT_DIGESTED.keys()
    ]


@pytest.mark.parametrize("name", UNRELATED)
def test_keys_do_not_change_with_modules_that_no_run_imports(changed, name):
    assert changed[name] == []


def test_every_part_of_every_figure_has_a_digest_and_every_exception_is_needed():
    modules = {part.module for figure in FIGURES.values() for part in figure.parts(Options(quick=True))}
    reached = {name for module in modules for name in code_digest.reached_from(module)}
    assert reached >= (NOT_DIGESTED - {"studies.results"}) | code_digest.NOT_DIGESTED.keys()
    assert all(len(code_digest.code_digest(module)) == 64 for module in modules)


def sources():
    return [path for path in (ROOT / "studies").rglob("*.py") if "tests" not in path.parts]


def test_imports_among_studies_have_no_circle_and_stand_at_the_top():
    """No module imports cede inside of a function, except what needs an extra or the command line, and none reaches itself."""
    for path in sources():
        tree = ast.parse(path.read_text())
        inner = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) and node not in tree.body]
        late = [name for name in code_digest.imported_names(inner, "studies") if name.split(".")[0] in ("cede", "studies")]
        assert path.name in ("__main__.py", "fleet_cli.py") or not [name for name in late if not name.startswith("cede.gym.")], path
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        imported = code_digest.imported_by(module, "studies")
        direct = {name for name in imported if code_digest.source_file(name, "studies").name != "__init__.py"}
        own = {name for name in direct if name.startswith("studies.")}
        assert module not in {name for start in own for name in code_digest.reached_from(start)}, path


def test_studies_stand_on_the_public_face():
    """No private package of cede is imported: what studies need and cede does not offer shows here."""
    for path in sources():
        names = code_digest.imported_names(ast.walk(ast.parse(path.read_text())), "studies")
        assert not [name for name in names if re.match(r"cede\._[a-z]", name)], path


def test_results_are_no_data_of_the_code():
    """Tables of finished runs lie in the package, and must not change the keys of runs."""
    files = code_digest.data_files("studies", "studies", NOT_DIGESTED)
    assert not [path for path in files if "results" in path.parts]
