"""The command line of the studies: `python -m studies figure`, `claims`, `paper` and `fleet`, at the root of the repository."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cede.cli.terminal import Command, CommandGroup, Seed, clear_errors, flag, print_table, say
from studies import fleet_cli

app = typer.Typer(
    cls=CommandGroup, help="The experiments of the paper and our own.", add_completion=False, pretty_exceptions_enable=False
)
Jobs = Annotated[int, typer.Option(help="How many runs to compute at the same time.", min=1)]
WIDTHS = (100, 140)  # characters: of a terminal in which a table of claims has room for what was measured, and for intervals


class ListsFigures(Command):
    """A command whose help ends with all figures by name."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, then the names and titles of figures. They are imported here, so that other help stays quick."""
        super().format_help(ctx, formatter)
        from studies.catalogue import FIGURES

        print_table("Figures", ("name", "what it shows"), [(name, FIGURES[name].title) for name in FIGURES], left=2)


def figure(
    names: Annotated[
        list[str],
        typer.Argument(help="Names of figures, or all.", metavar="NAME...|all"),
    ],
    quick: Annotated[bool, flag("--quick", help="Run few episodes, in seconds; the picture says so.")] = False,
    episodes: Annotated[int | None, typer.Option(help="Number of episodes of each run, instead of the paper's.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Number of repeats with different seeds, instead of the paper's.")] = None,
    seed: Seed = 0,
    jobs: Jobs = 2,
    out: Annotated[
        Path | None, typer.Option(help="Directory for pictures and tables; by default out/figures, with --quick out/quick.")
    ] = None,
    radii: Annotated[str | None, typer.Option(help="For many-teams only: radii printed, schedule (default) or constant.")] = None,
    overwrite: Annotated[
        bool, flag("--overwrite", help="Replace tables in the directory that are of runs with other options.")
    ] = False,
) -> None:
    """Run experiments of the paper and draw their figures. An interrupted run continues where it stopped."""
    where = out or Path("out/quick" if quick else "out/figures")
    chosen = {"quick": quick, "episodes": episodes, "repeats": repeats, "seed": seed, "jobs": jobs, "out": where}
    run_figures(names, {**chosen, "radii": radii, "overwrite": overwrite})


def claims(
    out: Annotated[Path, typer.Option(help="Directory with the tables of figures.")] = Path("out/figures"),
    page: Annotated[Path | None, typer.Option(help="A Markdown page whose table of verdicts is brought up to date.")] = None,
    gallery: Annotated[Path | None, typer.Option(help="A Markdown page whose list of figures is brought up to date.")] = None,
) -> None:
    """List the claims of the paper, and our own, each with a verdict, from the tables in a directory.

    What was measured, with its statistic and rule, is written there to claims.csv, and to report.html with all figures.
    """
    with clear_errors():
        from studies.catalogue import figures_in
        from studies.claims import finding, pages, verdicts
        from studies.files import write_whole
        from studies.report import GALLERY, is_quick, with_gallery, write_report
        from studies.tables import load_table

        quick = is_quick(out, list(figures_in(out)))
        if page is not None and quick:
            raise ValueError(f"claims: page is {str(page)!r}, must be left out with quick runs, which decide no claim")
        for name, path, mark in (("page", page, pages.BEGIN), ("gallery", gallery, GALLERY[0])):
            if path is not None:
                check_marked_page(name, path, mark)
        found = verdicts.all_findings(out)
        report = write_report(out, found)
        if quick:
            say("these are quick runs with few episodes, which decide no claim: leave out --quick for runs at full size")
        columns = pages.COLUMNS[: 2 + sum(Console().width >= width for width in WIDTHS)]  # the others are in claims.csv
        for whose, title in ((finding.PAPER, "Claims of the paper"), (finding.OURS, "Our own claims")):
            mine = [tuple(getattr(f, name) for name in columns) for f in found if f.whose == whose]
            if mine and not quick:
                print_table(title, columns, mine, left=len(columns))
        missing = verdicts.missing_figures(out)
        if missing:
            say(f"not run: {', '.join(missing)} (python -m studies figure NAME --out {out})")
        if page is not None:
            rows = load_table(out / "claims.csv", as_text=True)
            write_whole(page, pages.with_verdicts(page.read_text(encoding="utf-8"), rows))
            say(f"verdicts written to {page}")
        if gallery is not None:
            write_whole(gallery, with_gallery(gallery.read_text(encoding="utf-8"), out))
            say(f"figures written to {gallery}")
        say(f"report: {report}")


def check_marked_page(name: str, path: Path, mark: str) -> None:
    """Check that a page can be read, and has the mark after which something is to be written."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):  # not there, no text, or no path at all
        raise ValueError(f"claims: {name} is {str(path)!r}, must be a page of text that can be read") from None
    if text.count(mark) != 1:
        raise ValueError(f"claims: {name} is {str(path)!r}, must be a page with one line {mark!r}")


def paper(
    quick: Annotated[bool, flag("--quick", help="Run few episodes, in a minute; the page says so.")] = False,
    seed: Seed = 0,
    jobs: Jobs = 2,
    out: Annotated[Path, typer.Option(help="Directory for pictures, tables and the page.")] = Path("out/paper"),
    errata: Annotated[
        Path | None, typer.Option(help="A Markdown page with a numbered list of errata, which the page repeats.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Directory with tables of an earlier run: says which came out the same."),
    ] = None,
) -> None:
    """Run the paper again: all its figures, in its order, with a verdict on each claim. Hours; goes on where it was stopped."""
    with clear_errors():
        from studies.figure import Options
        from studies.paper import compare_tables, errata_list, run_paper, write_paper

        if against is not None and not against.is_dir():
            raise ValueError(f"paper: against is {str(against)!r}, must be a directory")
        errata_list(errata)  # hours later it would be too late to say that it is not there
        run_paper(Options(quick=quick, seed=seed, jobs=jobs, out=out), say)
        if against is not None and quick:
            say(f"{against}: not compared, this is a quick run")
        elif against is not None:
            print_table(f"Tables beside those in {against}", ("table", "it is"), list(compare_tables(out, against).items()))
        say(f"page: {write_paper(out, errata, None if quick else against)}")


def run_figures(names: list[str], chosen: dict[str, Any]) -> None:
    """Run figures by name, draw them, and write the report. chosen: the fields of `figure.Options`."""
    with clear_errors():
        from studies.catalogue import chosen as by_name
        from studies.figure import Options
        from studies.report import write_report
        from studies.run import run

        if chosen.get("radii") is not None and names != ["many-teams"]:
            raise ValueError("figure: radii is given, must be left out: only many-teams has a choice")
        options = Options(**chosen)
        for path in run(by_name(names), options, say):
            if path.suffix == ".png":
                say(f"picture: {path}")
        say(f"report: {write_report(options.out)}")


app.command(cls=ListsFigures)(figure)
for command in (claims, paper, fleet_cli.fleet):
    app.command(cls=Command)(command)

if __name__ == "__main__":
    app(prog_name="python -m studies")
