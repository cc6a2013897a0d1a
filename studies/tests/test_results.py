"""The tables in studies/results/ are those of this code: cheap parts of them, run again, come out bit for bit."""

from pathlib import Path

import pytest

from studies.catalogue import FIGURES, figures_in
from studies.figure import Options
from studies.tables import load_table

RESULTS = Path(__file__).parent.parent / "results"
CHEAP = {  # figure: arguments of the parts that are run again
    "drivers": {},
    "action-why": {"learner": "UCRL2-MC, river known", "macro": 1, "seed": 0},
    "guarantee": {"learner": "UCRL2-MC", "seed": 0},
    "growth": {"axis": "D", "seed": 0},
    "sharing": {"learner": "UCRL2-MC, not shared", "radii": "schedule", "checkpoints": [300], "seed": 0},
}


def test_all_figures_have_stored_results():
    assert set(FIGURES) == set(figures_in(RESULTS))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_a_part_of_a_table_is_computed_again(name):
    figure = FIGURES[name]
    parts = [part for part in figure.parts(Options()) if CHEAP[name].items() <= part.arguments.items()]
    rows = figure.table([(part, part.run(lambda done: None)) for part in parts])
    stored = {tuple(row.items()) for row in load_table(RESULTS / f"{name}.csv", as_text=True)}
    assert rows
    for row in rows:
        mine = {column: str(value) for column, value in row.items()}
        assert any(mine.items() <= dict(one).items() for one in stored), mine
