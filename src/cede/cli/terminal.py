"""Shared by the commands: printing, messages of errors, common options."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup


def flag(name: str, *, help: str, **more: Any) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help, metavar="", **more)


class HelpIsFlag:
    """Mixin for commands of Typer: --help is shown without the type of a value."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.metavar = ""
        return option


class Command(HelpIsFlag, TyperCommand):
    """A command of cede."""


class CommandGroup(HelpIsFlag, TyperGroup):
    """A group of commands of cede."""


Out = Annotated[Path, typer.Option(help="Directory for pictures and tables.")]
Seed = Annotated[int, typer.Option(help="Random seed: the same seed gives the same numbers.", min=0)]
LearnMachine = Annotated[
    bool,
    flag("--learn-machine", help="Lane driving: learn the machine's policy, too; without this it is known, as in the paper."),
]
Structured = Annotated[
    bool, flag("--structured", help="Declare which states, and which pairs of state and action, behave alike in this world.")
]


class Method(StrEnum):
    """The learners, as in cede.ucrl2_mc, ...; ucrl2-same-form is ucrl2 with radius="same-form"."""

    recommended = "recommended"
    ucrl2_mc = "ucrl2-mc"
    posterior_sampling = "posterior-sampling"
    ucrl2 = "ucrl2"
    ucrl2_same_form = "ucrl2-same-form"
    greedy = "greedy"


class ListsSets(Command):
    """A command whose help ends with all confidence sets by name."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, then the values of --radii. They are imported here, so that other help stays quick."""
        super().format_help(ctx, formatter)
        from cede.beliefs.registry import BY_NAME
        from cede.cli.methods import SCALED, radii_names

        rows = [(name, SCALED[name] if name in SCALED else BY_NAME[name].about) for name in radii_names()]
        print_table("Confidence sets", ("--radii", "what they are"), rows, left=2)


class Ways(StrEnum):
    """How learners plan."""

    full = "full"
    greedy = "greedy"


@contextmanager
def clear_errors() -> Iterator[None]:
    """Return a context in which an error of the user ends the command with one line and exit code 2, without a traceback."""
    try:
        yield
    except BrokenPipeError:  # the reader of the output has closed it
        raise typer.Exit(0) from None
    except (ValueError, ImportError, OSError, MemoryError) as error:
        typer.echo(f"error: {printable(error if str(error) else 'out of memory')}", err=True)
        raise typer.Exit(2) from None


def say(text: str) -> None:
    """Print a line of text. Control characters in names and paths are escaped."""
    typer.echo(printable(text))


def say_settings(settings: Mapping[str, Any]) -> None:
    """Print settings on a line, without empty values."""
    say(", ".join(f"{key}: {value}" for key, value in settings.items() if value not in (None, [], {})))


def print_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, left: int = 1) -> None:
    """Print a table. The first columns, one by default, are aligned to the left, all others to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def cell(text: str) -> Text:  # a Text, not a string: names are data, and brackets in them no markup
        return Text(printable(text))

    table = Table(title=cell(title), title_justify="left")
    for i, name in enumerate(columns):
        table.add_column(cell(name), justify="left" if i < left else "right")
    for row in rows:
        table.add_row(*(cell(text) for text in row))
    Console().print(table)


def printable(text: object) -> str:
    """Return a text with escaped control characters."""
    from cede._base.check import printable as shown

    return shown(text)


def must_be_used(context: typer.Context, command: str, unused: Mapping[str, str]) -> None:
    """Raise an error for options that were given and would have no effect. unused: the reason for each such option."""
    for name, why in unused.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{command}: {option} is given, must be left out {why}: it would have no effect")


def unused_options(world: str, make: Callable[..., Any], method: Method) -> dict[str, str]:
    """Return the options that have no effect in a world or with a learner, with the reason for each. make: makes the world."""
    from inspect import signature

    from cede.worlds.by_name import OPTIONS

    taken = signature(make).parameters
    unused = {name: f"in {world}, which does not have it" for name in (*OPTIONS, "agents") if name not in taken}
    if world != "lane-driving":
        unused["learn_machine"] = f"in {world}, which has no machine"
    if method in (Method.greedy, Method.posterior_sampling):
        unused |= dict.fromkeys(("delta", "radii"), f"with {method.value}, which has no confidence sets")
    if method is Method.recommended:
        why = "with recommended, whose sets are calibrated from the data (--method ucrl2-mc has others)"
        unused |= dict.fromkeys(("delta", "radii"), why)
    return unused
