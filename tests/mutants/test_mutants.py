"""The tool itself: which places are changed, that the sample repeats, that a mutant is killed, and that the page is up to date."""

import json
import os
import subprocess
import sys

from mutants.__main__ import EQUIVALENT, FILE, KILLED, PAGE, SURVIVED, is_complete, number_of, reasons, with_table
from mutants.running import OF_KERNELS, SOURCE, TESTS, files, files_of_tests
from mutants.sites import is_kernel, mutants_of, sampled

TEXT = '''
"""A text: 1 < 2."""
SIZE: int = 3

def least(values: list[int | None] = (), scale=0.5) -> "1 < 2":
    """Not 1 + 1."""
    if not values or len(values) < SIZE:
        raise ValueError(f"{len(values) + 1} values" + "more")
    found = min(values[1:last], key=one) * scale
    found -= 1
    note(found)
    return found if found is not None and found > 0 else -1
'''


def test_what_is_changed():
    found = mutants_of("problem/x.py", TEXT)
    by_line = {}
    for mutant in found:
        by_line.setdefault(mutant.line, set()).add(mutant.change)
    assert by_line == {
        3: {"3 -> 4", "3 -> 2"},
        5: {"0.5 -> 5.0"},
        7: {"not dropped", "or -> and", "< -> <=", "< -> >="},
        9: {"min -> max", "1 -> 2", "last -> last - 1", "key= dropped", "* -> /"},
        10: {"-= -> +=", "1 -> 2"},
        11: {"call dropped"},
        12: {"returns None", "is not -> is", "and -> or", "> -> >=", "> -> <=", "0 -> 1", "- dropped", "1 -> 2"},
    }
    changed = next(mutant for mutant in found if mutant.change == "-= -> +=").applied(TEXT)
    assert changed == TEXT.replace("found -= 1", "found += 1")


def test_the_sample_repeats_and_an_edit_elsewhere_does_not_change_it():
    one = {mutant.key for mutant in sampled({"problem/x.py": TEXT}, 10, 1)}
    assert len(one) == 10
    assert (
        one
        == {mutant.key for mutant in sampled({"problem/x.py": TEXT}, 10, 1)}
        != {mutant.key for mutant in sampled({"problem/x.py": TEXT}, 10, 2)}
    )
    assert one == {mutant.key for mutant in sampled({"problem/x.py": "# a line more\n" + TEXT}, 10, 1)}


def test_every_kernel_has_tests():
    assert {file for file in files() if is_kernel(file)} == set(OF_KERNELS)
    assert {name for names in OF_KERNELS.values() for name in names} <= set(files_of_tests())


TRIED = """
import sys
from pathlib import Path
from mutants import __main__ as mutants, running
running.WORK = mutants.WORK = Path(sys.argv[1])
tree = running.Tree().refreshed()
text = (running.SOURCE / "problem/names.py").read_text()
for change in ("not in -> in", "returns None"):
    mutant = next(m for m in mutants.mutants_of("problem/names.py", text) if m.change == change and m.where == "place_index")
    print(*mutants.tried_on(tree, [sys.argv[2]], 10.0, mutant, text))
assert (tree.source / "problem/names.py").read_text() == text
"""


def test_a_mutant_is_killed_and_one_that_no_test_looks_at_survives(tmp_path):
    test = tmp_path / "test_names.py"
    test.write_text("from cede.problem.names import name_index\n\n\ndef test_it():\n    name_index('x', 'y', 'b', ('a', 'b'))\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(SOURCE.parent)])}
    command = [sys.executable, "-c", TRIED, str(tmp_path / "work"), str(test)]
    found = subprocess.run(command, cwd=TESTS, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[0] for line in found] == [KILLED, SURVIVED]


def test_the_page_and_the_reasons_are_up_to_date():
    told = json.loads(FILE.read_text())
    assert with_table(PAGE.read_text(), told) == PAGE.read_text()
    ends = [mutant["end"] for mutant in told["mutants"]]
    if is_complete(told):
        assert ends.count(KILLED) >= 0.95 * (len(ends) - ends.count(EQUIVALENT))
    for key in reasons():
        file = key.split(" | ")[0]
        assert (SOURCE / file).exists(), key


def test_reasons_name_mutants_that_exist():
    known = {}
    for key in reasons():
        file = key.split(" | ")[0]
        known.setdefault(file, {mutant.key for mutant in mutants_of(file, (SOURCE / file).read_text())})
        assert key in known[file], key
    numbers = [number_of(mutant) for mutant in mutants_of("problem/x.py", TEXT)]
    assert len(numbers) == len(set(numbers))
