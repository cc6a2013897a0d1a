"""`cede report`: a page about a saved learner, for those who decide."""

from pathlib import Path
from typing import Annotated

import typer

from cede.cli.terminal import Command, CommandGroup, clear_errors, say

commands = typer.Typer(cls=CommandGroup)


@commands.command(cls=Command)
def report(
    file: Annotated[Path, typer.Argument(help="A learner or fleet, as its save or cede learn --save wrote it.")],
    steps: Annotated[Path | None, typer.Argument(help="A record of its steps, as Learner.record_to wrote it.")] = None,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    today: Annotated[str | None, typer.Option(help="The agent who does it alone today; by default the learner's baseline.")] = None,
    team: Annotated[int | None, typer.Option(help="For a fleet: which team, numbered from 0.", min=0)] = None,
    by: Annotated[str | None, typer.Option(help="Group states by what a regular expression matches in their names.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
) -> None:
    """Write one page about a saved learner: what it costs and saves, who acts when, hand-overs, what is uncertain.

    The page needs no other file, and prints. Needs the extra plots.
    """
    with clear_errors():
        import cede
        from cede._base import check
        from cede._base.archive import check_writable

        where = check_writable("report", "--out", str(out))
        thing = cede.load(file)
        if isinstance(thing, cede.Fleet):
            expected = f"from 0 to {len(thing) - 1}: this is a fleet of {len(thing)} teams, of which one is reported"
            if team is None or team >= len(thing):
                check.fail("report", "--team", team, expected)
            thing = thing.learners[team]
        elif team is not None:
            check.fail("report", "--team", team, "left out: this is no fleet")
        learner = check.instance("report", "file", thing, cede.Learner)
        record = None if steps is None else cede.read_record(steps)
        say(f"page: {cede.insight.report(learner, record, today=today, by=by, title=title).save(where)}")
