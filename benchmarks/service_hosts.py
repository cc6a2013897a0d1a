"""What the benchmarks of the service start: PostgreSQL, `cede serve`, a bare server, servers and planners that can be killed; and
what these use of the processor and of memory.
"""

import json
import multiprocessing
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from itertools import count
from pathlib import Path
from typing import Any

import cede

HERE, SOURCE = Path(__file__).parent, Path(cede.__file__).parents[1]
BINARIES = Path("/usr/lib/postgresql")
HOW = "PostgreSQL is not installed: apt-get install -y postgresql"
TICKS = os.sysconf("SC_CLK_TCK")
LEASE = 1000  # milliseconds, of planners that are killed
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}"}
numbers = count()
killable = multiprocessing.get_context("forkserver")
killable.set_forkserver_preload(["uvicorn", "service_warm"])


# ------------------------------------------------------------------------------------------------- databases


class Postgres:
    """A server of PostgreSQL in a directory of its own, where its socket lies. Commits are synced. Not as root: it refuses."""

    def __init__(self) -> None:
        found = sorted(BINARIES.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
        if not found:
            raise FileNotFoundError(HOW)
        self.binaries, self.place = found[-1].parent, Path(tempfile.mkdtemp(prefix="cede-postgres-"))
        self.user: dict[str, Any] = {}
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.place, owner.pw_uid, owner.pw_gid)
            self.user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        data = str(self.place / "data")
        self._call("initdb", "-D", data, "-U", "cede", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
        self.start()

    def _call(self, program: str, *arguments: str) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([str(self.binaries / program), *arguments], check=True, cwd=self.place, **quiet, **self.user)

    def start(self) -> None:
        """Start it, also after it was stopped at once; return when it answers."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self.place} -c max_connections=100"
        log = str(self.place / "log")
        self._call("pg_ctl", "-D", str(self.place / "data"), "-w", "-o", options, "-l", log, "start")
        self.pid = int((self.place / "data" / "postmaster.pid").read_text().split()[0])

    def stop(self) -> None:
        """Stop it at once, as if it had been killed: it has to recover when it is started again."""
        self._call("pg_ctl", "-D", str(self.place / "data"), "-m", "immediate", "stop")

    def new(self) -> str:
        """Return the address of an empty database."""
        name = f"bench{next(numbers)}"
        self._call("psql", "-h", str(self.place), "-U", "cede", "-d", "postgres", "-qc", f"create database {name}")
        return f"postgresql+psycopg://cede@/{name}?host={self.place}"

    def remove(self) -> None:
        """Stop it, and remove its directory."""
        self.stop()
        shutil.rmtree(self.place)


class Files:
    """Databases of SQLite in a directory."""

    pid = None

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="cede-sqlite-"))

    def new(self) -> str:
        """Return the address of an empty database."""
        return f"sqlite:///{self.place}/bench{next(numbers)}.db"

    def remove(self) -> None:
        """Remove all of them."""
        shutil.rmtree(self.place)


# ------------------------------------------------------------------------------------------------- what they use


def processor_seconds(*pids: int | None) -> float:
    """Return the processor time of processes and of their children, those that are gone included."""
    total = 0
    for pid in pids:
        for path in Path("/proc").glob("[0-9]*/stat") if pid is not None else ():
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            mine = int(path.parent.name) == pid
            if mine or int(fields[1]) == pid:
                total += sum(int(one) for one in fields[11 : 15 if mine else 13])
    return total / TICKS


def memory(pid: int) -> float:
    """Return the MiB of a process that are resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


# ------------------------------------------------------------------------------------------------- servers


def free_port() -> int:
    """Return a port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Served:
    """A server that answers at a port. token: None: it asks for none."""

    def __init__(self, process: Any, port: int, token: str | None) -> None:
        self.process, self.port, self.token, self.pid = process, port, token, process.pid

    def ask(self, method: str, path: str, data: Any = None) -> Any:
        """Send one request, and return what the answer says."""
        return json.loads(self.text(path, method, None if data is None else json.dumps(data).encode()))

    def text(self, path: str, method: str = "GET", body: bytes | None = None) -> str:
        """Send one request, and return the answer's text."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=600) as answer:
            return str(answer.read().decode())

    def wait(self) -> "Served":
        """Wait until it answers."""
        for _ in range(6000):
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return self
            except OSError:
                time.sleep(0.01)
        raise TimeoutError("the server does not start")

    def stop(self) -> None:
        """End it, and wait for that."""
        self.process.terminate()
        if isinstance(self.process, subprocess.Popen):
            self.process.communicate()
        else:
            self.process.join()


def real_server(url: str, *options: str, token: str | None = None) -> Served:
    """Start `cede serve` as a user would. token: it was shown before; None: it is shown now."""
    command = [sys.executable, "-m", "cede.cli", "serve", "--db", url, "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT)
    assert process.stdout is not None
    token = token or process.stdout.readline().split()[-1]
    address = process.stdout.readline().split()[-1]
    return Served(process, int(address.rpartition(":")[2]), token).wait()


def bare_server(url: str) -> Served:
    """Start the bare server."""
    port = free_port()
    command = [sys.executable, str(HERE / "service_bare.py"), url, str(port)]
    return Served(subprocess.Popen(command, stderr=subprocess.DEVNULL, env=ENVIRONMENT), port, "none").wait()


def serve(url: str, port: int, plans: bool) -> None:
    """Serve until killed."""
    import uvicorn

    from cede.serve.http.app import create_app
    from cede.serve.service import ServiceOptions
    from cede.serve.store.database import Database

    app = create_app(Database(url), ServiceOptions(plans=plans, pause=0.2))
    uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, access_log=False)).run()


def plan(url: str) -> None:
    """Plan until killed."""
    from cede.serve.planner.plans import Planner
    from cede.serve.store.database import Database
    from cede.serve.store.store import Store

    Planner(Store(Database(url)), lease=LEASE).run(0.05)


def killable_process(target: Any, *arguments: Any) -> Any:
    """Start a process whose modules are loaded already, so that many can be killed in little time."""
    before, os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH"), ENVIRONMENT["PYTHONPATH"]
    try:
        process = killable.Process(target=quietly, args=(target, *arguments), daemon=True)
        process.start()
    finally:
        os.environ.pop("PYTHONPATH")
        os.environ.update({} if before is None else {"PYTHONPATH": before})
    return process


def quietly(target: Any, *arguments: Any) -> None:
    """Call a function without what it would print."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    target(*arguments)


def killable_server(url: str, port: int, token: str, *, plans: bool) -> Served:
    """Start a server that can be killed."""
    return Served(killable_process(serve, url, port, plans), port, token).wait()


def killable_planner(url: str) -> Any:
    """Start a planner that can be killed."""
    return killable_process(plan, url)


# ------------------------------------------------------------------------------------------------- load


class Load:
    """A process that sends requests to a server (service_load.py)."""

    def __init__(self, server: Served, path: str, bodies: Path, **more: Any) -> None:
        place = {"port": server.port, "token": server.token, "method": "POST", "path": path, "bodies": str(bodies)}
        command = [sys.executable, str(HERE / "service_load.py"), json.dumps({**place, **more})]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def stop(self) -> None:
        """Let it end once all that was begun is acknowledged."""
        self.process.send_signal(signal.SIGTERM)

    def result(self) -> dict[str, Any]:
        """Wait for its end, and return what became of the requests."""
        out, _ = self.process.communicate()
        if self.process.returncode:
            raise RuntimeError("the load generator failed")
        return dict(json.loads(out))
