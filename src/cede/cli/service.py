"""The commands of the service: serve, planner, token, db. Heavy imports happen inside, so that --help is quick."""

import gc
import ipaddress
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cede.cli.terminal import Command, Group, clear_errors, flag, print_table, say

if TYPE_CHECKING:
    from cede.serve.database import Database
    from cede.serve.plan_workers import PlanWorkers

Db = Annotated[
    str | None,
    typer.Option(help="The database: sqlite:///FILE or postgresql+psycopg://...; by default cede.db in the data directory."),
]
MOST_SHOWN = 20  # differences that `db verify` lists
MOST_CONNECTIONS = 2000

token_commands = typer.Typer(cls=Group, help="Tokens: who may do what.", no_args_is_help=True)
db_commands = typer.Typer(cls=Group, help="The database of the service.", no_args_is_help=True)


def add_commands(app: typer.Typer) -> None:
    """Add the commands of the service to the command line."""
    app.command(cls=Command)(serve)
    app.command(cls=Command)(planner)
    app.add_typer(token_commands, name="token")
    app.add_typer(db_commands, name="db")


def default_url() -> str:
    """Return the address of the database in the data directory: $CEDE_DATA, or cede in the place for data of the system's user."""
    usual = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "cede"
    place = Path(os.environ.get("CEDE_DATA") or usual)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{place.absolute() / 'cede.db'}"


@contextmanager
def opened(url: str | None, *, used: bool = False) -> "Iterator[Database]":
    """Open the database; what is wrong with it is told in one line. used: it must be there, with the newest schema."""
    with clear_errors():
        from cede._base.extras import need

        need("fastapi", "serve")
        errors: Any = need("sqlalchemy.exc", "serve")
        from cede.serve.database import Database

        try:
            database = Database(url or default_url(), used=used)
            try:
                yield database
            finally:
                database.close()
        except errors.SQLAlchemyError as error:
            reason = str(getattr(error, "orig", error)).strip().split("\n")[0]
            raise ValueError(f"database: it is not usable ({reason}), must be one that can be reached and written") from error


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(
    db: Db = None,
    host: Annotated[str, typer.Option(help="Where to listen; by default only this machine can connect.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.", min=0, max=65535)] = 8000,
    allow_host: Annotated[list[str] | None, typer.Option(help="A name under which clients may ask for it; several times.")] = None,
    root_path: Annotated[str, typer.Option(help="The prefix of its addresses behind a proxy, as in /control.")] = "",
    plans: Annotated[bool, flag("--plan/--no-plan", help="Whether it plans itself, or leaves that to `cede planner`.")] = True,
    max_batch: Annotated[int, typer.Option(help="The most bytes of a batch of steps.", min=1024)] = 16 << 20,
) -> None:
    """Serve: asked over HTTP who should act, told what happened, learning in the background. Ctrl-C stops it."""
    with opened(db) as database:
        import uvicorn

        from cede.serve import tokens
        from cede.serve.app import create_app
        from cede.serve.service import Options

        held = tokens.Tokens(database)
        held.refresh()
        if not len(held) and not is_loopback(host):
            raise ValueError(f"serve: --host is {host!r}, must be 127.0.0.1 until there is a token (`cede token create`)")
        if root_path and (not root_path.startswith("/") or root_path.endswith("/")):
            raise ValueError(f"serve: --root-path is {root_path!r}, must begin with / and not end with it")
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048)
        if not len(held):
            made = database.write(lambda c: tokens.create(c, "made by cede serve", ["admin"], None, None))
            say(f"token (shown once): {made}")
        name = f"[{host}]" if ":" in host else host
        hosts = dict.fromkeys([*Options().hosts, name, *(allow_host or ())])
        options = Options(hosts=tuple(hosts), root_path=root_path, most_batch=max_batch, plans=plans)
        log_as_json()
        wait_little()
        config = uvicorn.Config(
            create_app(database, options),
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=10,
        )
        say(f"address: http://{name}:{listening.getsockname()[1]}{root_path}")
        uvicorn.Server(config).run(sockets=[listening])


def wait_little() -> None:
    """Let answers wait less for this process's other threads: turns are short, and its memory is searched for garbage seldom.

    Reports are large lists of small objects, which set off searches of all memory, tens of milliseconds each. What is there before
    the first request stays, and is not searched at all.
    """
    sys.setswitchinterval(0.001)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def log_as_json() -> None:
    """Write logs to stderr, one object of JSON in a line."""
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


class PlanEngines(StrEnum):
    """Where a planner has its plans made."""

    processes = "processes"
    ray = "ray"


@contextmanager
def plan_workers(engine: str, jobs: int | None, address: str | None) -> "Iterator[PlanWorkers | None]":
    """Start those who make plans; None: the planner does that itself."""
    from cede.serve.plan_workers import PlanWorkers

    if engine == "processes" and jobs in (None, 1) and address is None:
        yield None
        return
    workers = PlanWorkers(engine, jobs, address)
    try:
        yield workers
    finally:
        workers.close()


def planner(
    db: Db = None,
    once: Annotated[bool, flag("--once", help="Plan for all teams that are due now, and stop.")] = False,
    engine: Annotated[PlanEngines, typer.Option(help="Where plans are made; they are the same.")] = PlanEngines.processes,
    jobs: Annotated[int | None, typer.Option(help="Plans at once; by default 1, on Ray one for each processor.", min=1)] = None,
    address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster, auto or host:port; without, one is started on this machine.")
    ] = None,
) -> None:
    """Plan for teams that are due, beside the servers that share the database. Ctrl-C stops it."""
    with opened(db) as database, plan_workers(engine.value, jobs, address) as workers:
        import structlog

        from cede.serve.planning import Planner
        from cede.serve.store import Store

        log_as_json()
        log: Any = structlog.get_logger("cede")

        def failed(error: Exception) -> None:
            log.error("planning failed", detail=str(error)[:500])

        work = Planner(Store(database), failed=failed, workers=workers)
        if once:
            while work.once():
                pass
        else:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: work.stop())
            say(f"planner: {work.name}")
            work.run()
        say(f"plans made: {work.made}")


@token_commands.command("create")
def create_token(
    scope: Annotated[list[str], typer.Option(help="admin, report, decide or read; several times.")],
    team: Annotated[list[str] | None, typer.Option(help="A team that it is for; several times. Without: all.")] = None,
    days: Annotated[float | None, typer.Option(help="For how many days it holds; without: for ever.")] = None,
    label: Annotated[str, typer.Option(help="What it is for.")] = "made by cede token create",
    db: Db = None,
) -> None:
    """Make a token, and print it. Nobody can find it out later."""
    with opened(db) as database:
        from cede.serve import tokens

        say(database.write(lambda c: tokens.create(c, label, scope, team or None, days)))


@token_commands.command("list")
def list_tokens(db: Db = None) -> None:
    """List tokens, without what is secret of them."""
    from datetime import UTC, datetime

    def day(ms: int) -> str:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")

    with opened(db, used=True) as database:
        from cede.serve import tokens

        with database.read() as connection:
            found = tokens.listed(connection)
        rows = []
        for one in found:
            teams = "all teams" if one["teams"] is None else ", ".join(json.loads(one["teams"]))
            until = f"until {day(one['expires'])}" if one["expires"] else "for ever"
            holds = f"revoked {day(one['revoked'])}" if one["revoked"] else until
            rows.append((one["id"], f"{one['scopes']}: {teams}", holds, one["label"]))
        print_table("Tokens", ("id", "may", "holds", "label"), rows)


@token_commands.command("revoke")
def revoke_token(token: Annotated[str, typer.Argument(help="Its id, as `cede token list` shows it.")], db: Db = None) -> None:
    """Revoke a token. Servers refuse it within some seconds."""
    with opened(db, used=True) as database:
        from cede.serve import tokens

        database.write(lambda c: tokens.revoke(c, token))
        say(f"revoked: {token}")


@db_commands.command("verify")
def verify_db(db: Db = None) -> None:
    """Recompute all counts from the log, and compare them exactly with those that are kept. Exit code 1 if any differ."""
    with opened(db, used=True) as database:
        from cede.serve.audit import verify
        from cede.serve.store import Store

        with database.read() as connection:
            wrong = verify(connection, Store(database), progress=True)
        for line in wrong[:MOST_SHOWN]:
            say(line)
        say(f"{len(wrong)} differences: `cede db rebuild` counts the log again" if wrong else "all counts equal the log")
    if wrong:
        raise typer.Exit(1)


@db_commands.command("rebuild")
def rebuild_db(db: Db = None) -> None:
    """Count the log again, from its beginning."""
    with opened(db, used=True) as database:
        from cede.serve.audit import rebuild
        from cede.serve.store import Store

        database.write(lambda c: rebuild(c, Store(database), progress=True))
        say("all counts were rebuilt from the log")


@db_commands.command("upgrade")
def upgrade_db(db: Db = None) -> None:
    """Bring the tables to the newest schema. Servers do that when they start, too."""
    with opened(db):
        say("the schema is the newest")
