"""The client: a service used like a learner. It decides by a copy of the policy, and tells what happened in the background.

While the service cannot be reached, it goes on with the policy that it has, says how old that is, and keeps what was not told yet.
"""

import io
import os
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import quote

import numpy as np

from cede._base import check
from cede._base.archive import write_arrays
from cede._base.arrays import Policy
from cede._base.extras import need
from cede.learning.files import SCHEMA, pack_learner
from cede.learning.learner import Learner

MOST_UNSENT = 200_000  # steps that wait to be told
BATCH = 2000  # steps of a request, about
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds before it tries again
RANDOM_BITS = 21  # of the number of an episode; seconds since 1970 come first
TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Told:
    """An episode that is to be told."""

    team: str
    steps: tuple[dict[str, Any], ...]
    episode: int


@dataclass(frozen=True, eq=False)
class Copy:
    """A policy that was downloaded, and what a client must know of the task."""

    policy: Policy | None  # (L, S, D); None: there is no plan yet
    version: int
    fallback: int
    about: Mapping[str, Any]
    tag: str | None
    got: float  # when it was last known to be the newest, by time.monotonic


class Client:
    """A client of a service (`cede serve`). It may be used in several threads, and after a fork.

    url: the address of the service. token: one that may decide and report for the teams that are used. timeout: seconds for a
    request. refresh: seconds after which a policy that is used is asked for again, in the background.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 5.0, refresh: float = 2.0) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or not check.is_text(url):
            check.fail("Client", "url", check.show(url), "the address of a service, as in 'http://localhost:8000'")
        self.url = url.rstrip("/")
        self._token = check.name("Client", "token", token)
        if not token.isascii() or not token.isprintable():
            check.fail("Client", "token", "odd", "as `cede token create` printed it")
        self._timeout, self._refresh = (
            check.number("Client", name, one, least=0.01) for name, one in (("timeout", timeout), ("refresh", refresh))
        )
        self._begin()

    def _begin(self) -> None:
        """Begin with nothing to tell and no threads, as a new client and one after a fork."""
        self._process, self._closed = os.getpid(), False
        self._more = threading.Condition()
        self._unsent: deque[Told] = deque()
        self._waiting = 0  # steps
        self._refused: list[str] = []
        self._teams: dict[str, TeamClient] = {}
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._connection: Any = None

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def http(self) -> Any:
        """Return the connection; after a fork a new one: what the parent has to tell, the parent tells."""
        if self._process != os.getpid():
            self._begin()
        if self._connection is None:
            headers = {"authorization": f"Bearer {self._token}"}
            self._connection = need("httpx2", "client").Client(base_url=self.url, headers=headers, timeout=self._timeout)
        return self._connection

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Send a request, and return the answer. What the service refuses is raised in its own words."""
        found = self.http.request(method, path, **more)
        if found.status_code >= 400:
            raise ValueError(detail_of(found))
        return found

    def put_environment(self, name: str, learner: Learner) -> bool:
        """Make an environment with the task and settings of a learner that has not learned yet; False if it is there already."""
        check.instance("put_environment", "learner", learner, Learner)
        header, arrays = pack_learner(learner.saved)
        file = io.BytesIO()
        write_arrays(file, "learner", SCHEMA, header, arrays)
        kind = {"content-type": "application/octet-stream"}
        path = f"/v1/environments/{quote(check.name('put_environment', 'name', name), safe='')}"
        return bool(self.ask("PUT", path, content=file.getvalue(), headers=kind).json()["created"])

    def put_team(self, name: str, environment: str, *, seed: int = 0, fallback: Any = None, own: Any = None) -> bool:
        """Make a team; False if it is there already. own: agents, costs and known policies of its own, as JSON can hold them."""
        data = {"environment": environment, "seed": seed, "fallback": fallback, "own": own or {}}
        path = f"/v1/teams/{quote(check.name('put_team', 'name', name), safe='')}"
        return bool(self.ask("PUT", path, json=data).json()["created"])

    def team(self, name: str) -> "TeamClient":
        """Return a team, to be used like a learner: choose, observe, end_episode."""
        check.name("Client.team", "name", name)
        self.http  # noqa: B018 (a fork is noticed here)
        with self._more:
            if name not in self._teams:
                self._teams[name] = TeamClient(self, name)
            return self._teams[name]

    def adopt(self, team: "TeamClient") -> None:
        """Take note of a team that is used after a fork."""
        self.http  # noqa: B018
        with self._more:
            self._teams[team.name] = team

    # ------------------------------------------------------------------------------------------------- in the background

    def tell(self, told: Told) -> None:
        """Queue an episode. It is sent in the background, again and again until the service has it."""
        self.http  # noqa: B018
        with self._more:
            if self._waiting + len(told.steps) > MOST_UNSENT:
                expected = f"at most {MOST_UNSENT}: the service does not take them"
                check.fail("Client", "the number of steps that wait", self._waiting + len(told.steps), expected)
            self._unsent.append(told)
            self._waiting += len(told.steps)
            self._more.notify_all()
        self.work()

    def work(self) -> None:
        """Start the threads, once."""
        with self._more:
            if self._closed:
                check.fail("Client", "it", "closed", "open")
            if not self._threads:
                works = (("cede-client-sender", self._send), ("cede-client-refresher", self._look))
                self._threads = [threading.Thread(target=work, name=name, daemon=True) for name, work in works]
                for thread in self._threads:
                    thread.start()

    def _send(self) -> None:
        """Tell what waits, until closed."""
        pause = FIRST_PAUSE
        while True:
            with self._more:
                while not self._unsent and not self._stop.is_set():
                    self._more.wait()
                if self._stop.is_set():
                    return
                batch: list[Told] = []
                size = 0
                for one in self._unsent:
                    if batch and size + len(one.steps) > BATCH:
                        break
                    batch.append(one)
                    size += len(one.steps)
            wait = self._tell(batch)
            if wait is None:
                pause = FIRST_PAUSE
                with self._more:
                    for one in batch:
                        self._unsent.popleft()
                        self._waiting -= len(one.steps)
                    self._more.notify_all()
            else:
                self._stop.wait(max(wait, pause * random.uniform(0.5, 1.0)))
                pause = min(LONGEST_PAUSE, 2 * pause)

    def _tell(self, batch: list[Told]) -> float | None:
        """Send episodes; return None if that is settled, else how long to wait at least. What is refused is kept, as text."""
        steps = [{"team": one.team, **step} for one in batch for step in one.steps]
        ends = [{"team": one.team, "episode": one.episode, "steps": len(one.steps)} for one in batch]
        try:
            found = self.http.post("/v1/steps", json={"steps": steps, "ends": ends})
        except need("httpx2", "client").HTTPError:
            return 0.0
        if found.status_code in TRY_AGAIN:
            told = found.headers.get("retry-after", "")
            return float(told) if told.isdecimal() else 0.0
        if found.status_code >= 400 and len(batch) > 1:  # one of them is wrong: the others must not suffer
            waits = [self._tell([one]) for one in batch]
            return None if all(one is None for one in waits) else 0.0
        if found.status_code >= 400:
            with self._more:
                self._refused.append(detail_of(found))
        return None

    def _look(self) -> None:
        """Ask for policies that are used, again and again, until closed."""
        while not self._stop.wait(self._refresh):
            for team in list(self._teams.values()):
                if team.used:
                    with suppress(ValueError):  # refused, as after a token was revoked: the age of the copy tells
                        team.refresh()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all that waits was told. What the service refused is raised as ValueError; too long a wait as TimeoutError."""
        until = None if timeout is None else time.monotonic() + check.number("flush", "timeout", timeout, least=0.0)
        with self._more:
            while self._unsent and not self._stop.is_set():
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"{self._waiting} steps wait to be told")
                self._more.wait(left)
            refused, self._refused = self._refused, []
        if refused:
            raise ValueError(refused[0] if len(refused) == 1 else f"{refused[0]} (and {len(refused) - 1} more)")

    def close(self, timeout: float = 5.0) -> None:
        """Tell what waits, for some seconds at most, and stop."""
        try:
            if not self._closed and self._threads:
                self.flush(timeout)
        finally:
            self._closed = True
            self._stop.set()
            with self._more:
                self._more.notify_all()
            for thread in self._threads:
                thread.join()
            if self._connection is not None:
                self._connection.close()


def detail_of(answer: Any) -> str:
    """Return what a service says about an error."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"service: status is {answer.status_code}, must be 200"


class TeamClient:
    """A team of a service, used like a `Learner`: `choose`, `observe`, `end_episode`. `Client.team` makes it.

    `choose` decides by a copy of the policy, which is not changed during an episode. What was observed is told when the episode
    ends. One thread at a time may use it.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name, self.used, self._process = client, name, False, os.getpid()
        self._copy: Copy | None = None  # the newest
        self._now: Copy | None = None  # that of the running episode
        self._steps: list[dict[str, Any]] = []
        self._chosen: tuple[int, int, int] | None = None  # t, agent and version of the last choice
        self._number = 0

    @property
    def start_agent(self) -> int:
        """Return who is in control before the first step."""
        return int(self._there().about["start_agent"])

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the names of the agents."""
        return tuple(self._there().about["agents"])

    @property
    def version(self) -> int:
        """Return the version of the policy by which it decides, 0: there is none, and the fallback agent acts."""
        return self._there().version

    @property
    def age(self) -> float:
        """Return for how many seconds it is not known whether there is a newer policy. It grows while the service is away."""
        copy = self._copy
        return float("inf") if copy is None else time.monotonic() - copy.got

    def refresh(self) -> bool:
        """Ask for the policy; return whether the service answered. A copy stays if it does not."""
        try:
            self._download()
        except need("httpx2", "client").HTTPError:
            return False
        return True

    def _there(self) -> Copy:
        """Return the policy by which it decides; the first time it must be downloaded. After a fork, the running episode is the
        parent's.
        """
        self.used = True
        if self._process != os.getpid():
            self._process, self._number = os.getpid(), 0  # numbers of its own
            self.drop_episode()
            self.client.adopt(self)
        if self._now is None:
            if self._copy is None:
                self._download()
            self.client.work()
            self._now = self._copy
        assert self._now is not None
        return self._now

    def _download(self) -> None:
        """Download the policy if it is newer than the copy. The tag is kept together with what it belongs to."""
        path, old = f"/v1/teams/{quote(self.name, safe='')}", self._copy
        headers = {} if old is None or old.tag is None else {"if-none-match": old.tag}
        found = self.client.http.get(f"{path}/policy", headers=headers)
        if found.status_code == 304 and old is not None:
            self._copy = Copy(old.policy, old.version, old.fallback, old.about, old.tag, time.monotonic())
        elif found.status_code == 200:
            about = found.json()
            policy = np.array(about.pop("policy"), dtype=np.int16)
            self._copy = Copy(policy, about["version"], about["fallback"], about, found.headers["etag"], time.monotonic())
        elif found.status_code == 404 and old is None:  # no plan yet, or no such team
            about = self.client.ask("GET", path).json()
            self._copy = Copy(None, 0, about["fallback"], about, None, time.monotonic())
        elif found.status_code not in (*TRY_AGAIN, 404):
            raise ValueError(detail_of(found))

    def choose(self, t: int, state: int, prev_agent: int) -> int:
        """Return the agent to put in control at time t in a state, if prev_agent was in control before."""
        copy = self._there()
        about, sizes = copy.about, ("horizon", "n_states")
        t, state = (check.index("choose", n, one, about[s]) for n, one, s in zip(("t", "state"), (t, state), sizes, strict=True))
        prev_agent = check.index("choose", "prev_agent", prev_agent, len(about["agents"]))
        agent = copy.fallback if copy.policy is None else int(copy.policy[t, state, prev_agent])
        self._chosen = (t, agent, copy.version)
        return agent

    def observe(
        self,
        t: int,
        state: int,
        prev_agent: int,
        agent: int,
        action: int,
        next_state: int,
        cost: float | None = None,
        enter_cost: float | None = None,
    ) -> None:
        """Take note of one step, as `Learner.observe` does. It is told when the episode ends."""
        about = self._there().about
        if check.index("observe", "t", t, about["horizon"]) != len(self._steps):
            check.fail("observe", "t", t, f"{len(self._steps)}, the next step of this episode")
        sizes = (about["n_states"], len(about["agents"]), len(about["agents"]), about["n_actions"], about["n_states"])
        names = ("state", "prev_agent", "agent", "action", "next_state")
        given = (state, prev_agent, agent, action, next_state)
        step: dict[str, Any] = {n: check.index("observe", n, one, size) for n, one, size in zip(names, given, sizes, strict=True)}
        for before in self._steps[-1:]:
            if before["agent"] != prev_agent:
                check.fail("observe", "prev_agent", prev_agent, f"{before['agent']}, who acted in the step before")
            if before["next_state"] != state:
                check.fail("observe", "state", state, f"{before['next_state']}, where the step before led")
        for name, one in (("cost", cost), ("enter_cost", enter_cost)):
            if one is not None:
                step[name] = check.number("observe", name, one)
        if self._chosen is not None and self._chosen[0] == t:
            step |= {"chosen": self._chosen[1], "version": self._chosen[2]}
            if "reason" in about:
                step["reason"] = about["reason"]
        self._steps.append({"t": int(t), "at": time.time_ns() // 1_000_000, **step})

    def end_episode(self) -> None:
        """End the running episode: it is told in the background, and the next one uses the newest policy."""
        if self._steps:
            self._number = max(self._number + 1, int(time.time()) << RANDOM_BITS | secrets.randbits(RANDOM_BITS))
            steps = tuple({"episode": self._number, **step} for step in self._steps)
            self.client.tell(Told(self.name, steps, self._number))
        self.drop_episode()

    def drop_episode(self) -> None:
        """Drop the running episode. Nobody is told of it."""
        self._steps, self._chosen, self._now = [], None, None
