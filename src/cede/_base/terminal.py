"""What commands print: lines, tables, and mistakes of the user in one line. Nothing heavy is imported before it is needed."""

from collections.abc import Sequence
from typing import Any

import typer


class clear_errors:
    """A context in which a mistake of the user ends the command with one line and exit code 2, without a traceback."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ValueError | ImportError | OSError | MemoryError):
            typer.echo(f"error: {printable(error if str(error) else 'out of memory')}", err=True)
            raise typer.Exit(2)


def say(text: str) -> None:
    """Print a line of text. Names and paths in it are data: what could move the cursor or hide something is written out."""
    typer.echo(printable(text))


def print_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table. The first column is aligned to the left, all others to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def cell(text: str) -> Text:  # a Text, not a string: names are data, and brackets in them no markup
        return Text(printable(text))

    table = Table(title=cell(title), title_justify="left")
    for i, name in enumerate(columns):
        table.add_column(cell(name), justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(cell(text) for text in row))
    Console().print(table)


def printable(text: object) -> str:
    """Return a text as it can be shown in a terminal without harm."""
    from cede._base.check import printable as shown

    return shown(text)
