"""Worlds of installed packages: a tiny package on the path, with entry points, is all that it takes."""

import importlib
import sys

import pytest
from typer.testing import CliRunner

from cede.cli import app
from cede.worlds.by_name import WORLDS as WORLDS_OF_CEDE
from cede.worlds.by_name import world_names

WORLDS = '''
import numpy as np
import cede

def corridor(switch_cost=0.0):
    """Three states in a row; the guide walks to the goal, the tourist does not."""
    transition = np.zeros((3, 2, 3))
    for s in range(3):
        transition[s, 0, max(0, s - 1)] = transition[s, 1, min(2, s + 1)] = 1.0
    environment = cede.Environment(transition, [1.0, 1.0, 0.0], [1.0, 0.0, 0.0])
    agents = [cede.Agent("tourist", [[0.5, 0.5]] * 3), cede.Agent("guide", [[0.0, 1.0]] * 3)]
    return cede.TwoLayerMDP(environment, cede.Team(agents, switch_cost), horizon=5)

def endless():
    import dataclasses
    return dataclasses.replace(corridor(), horizon=None, discount=0.9)

def needy(size):
    return corridor()

def nothing():
    return 3
'''
ENTRY_POINTS = """
[cede.worlds]
corridor = tiny_cede.worlds:corridor
endless = tiny_cede.worlds:endless
needy = tiny_cede.worlds:needy
nothing = tiny_cede.worlds:nothing
number = tiny_cede.numbers:FACTOR
broken = tiny_cede.broken:world
missing = tiny_cede.worlds:no_such_name
riverswim = tiny_cede.worlds:nothing
"""


def install(root, name, entry_points):
    """Make an installed package of a folder: what pip leaves behind, as far as entry points need it."""
    about = root / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    root = tmp_path / "site"
    package = root / "tiny_cede"
    package.mkdir(parents=True)
    for name, text in (("__init__", ""), ("worlds", WORLDS), ("numbers", "FACTOR = 2\n")):
        (package / f"{name}.py").write_text(text)
    (package / "broken.py").write_text("import no_such_module_at_all\n")
    install(root, "tiny-cede", ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(root))
    importlib.invalidate_caches()
    yield root
    for name in [name for name in sys.modules if name.partition(".")[0] == "tiny_cede"]:
        del sys.modules[name]


def run(*arguments):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    return result.exit_code, " ".join(result.output.split())


def test_a_world_of_an_installed_package(installed, tmp_path):
    code, text = run("learn", "corridor", "--episodes", 30, "--save", tmp_path / "c.cede", "--switch-cost", 0.1)
    assert code == 0, text
    assert "corridor, 30 episodes" in text
    assert "guide alone" in text
    code, text = run("learn", "riverswim", "--episodes", 3)  # a name that cede has itself is cede's
    assert code == 0, text
    assert "p=0.7 alone" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["corridr"], "error: learn: world is 'corridr', must be one of 'corridor', 'riverswim', 'lane-driving',"),
        (
            ["broken"],
            "error: learn: the entry point 'broken' of cede.worlds, registered by tiny-cede as tiny_cede.broken:world, ",
        ),
        (["broken"], "(ModuleNotFoundError: No module named 'no_such_module_at_all')"),
        (["missing"], "(AttributeError: module 'tiny_cede.worlds' has no attribute 'no_such_name')"),
        (["needy"], "must be a function without required arguments (missing a required argument: 'size')"),
        (["nothing"], "error: learn: what the world 'nothing' returned is 3, must be a TwoLayerMDP"),
        (["number"], "error: learn: the world 'number' is 2, must be a function that returns a TwoLayerMDP"),
        (["endless"], "error: learn: the horizon of endless is None, must be a number of steps"),
        (["corridor", "--structured"], "--structured is given, must be left out in corridor, which declares no structure"),
        (["corridor", "--control-cost", "1"], "--control-cost is given, must be left out in corridor, which does not have it"),
        (["corridor", "--agents", "1"], "--agents is given, must be left out in corridor, which does not have it"),
    ],
)
def test_worlds_that_cannot_be_had(installed, arguments, message):
    code, text = run("learn", *arguments, "--episodes", 3)
    assert code == 2
    assert message in text


def test_listing_imports_nothing(installed):
    assert world_names() == [*WORLDS_OF_CEDE, "broken", "corridor", "endless", "missing", "needy", "nothing", "number"]
    assert "tiny_cede" not in sys.modules
    code, text = run("learn", "--help")
    assert code == 0
    assert "support-desk, lane-driving, riverswim" in text
    assert "tiny_cede" not in sys.modules


def test_a_name_that_two_packages_use(installed):
    install(installed, "other-cede", "[cede.worlds]\ncorridor = tiny_cede.worlds:endless\n")
    code, text = run("learn", "corridor")
    assert code == 2
    assert "the entry point 'corridor' of cede.worlds is registered by" in text
    assert "tiny-cede as tiny_cede.worlds:corridor" in text
    assert "other-cede as tiny_cede.worlds:endless" in text
