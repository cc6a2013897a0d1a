"""The tables in results/ are those of this code: cheap parts of three of them are computed again, and must come out bit for bit."""

from pathlib import Path

import pytest

from cede.experiments.catalogue import FIGURES
from cede.experiments.figure import Options
from cede.experiments.paper import digest, figures_of_paper
from cede.experiments.tables import load_table

RESULTS = Path(__file__).parent.parent.parent / "results"
CHEAP = {  # figure: arguments of the parts that are run again
    "drivers": {},
    "action-why": {"learner": "UCRL2-MC, river known", "macro": 1, "seed": 0},
    "sharing": {"learner": "UCRL2-MC", "radii": "printed", "teams": 1, "seed": 0},
}


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


def test_every_table_of_the_paper_is_there_and_has_a_digest():
    for figure in figures_of_paper():
        assert len(digest(RESULTS / f"{figure.name}.csv")) == 64
