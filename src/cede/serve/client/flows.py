"""What clients do, without a network of their own: what they ask for, in which order, and what they make of the answers.

All that needs the network is a flow: a generator that yields requests, pauses and work with the disk, and is sent what came of
them. `client.py` drives flows in threads, `async_client.py` in tasks.
"""

import io
import random
import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from cede._base import check
from cede._base.archive import path_to_write, write_arrays
from cede.learning.files import SCHEMA, pack_learner
from cede.learning.learner import Learner
from cede.serve.client.running import Copy, shape_of
from cede.serve.client.spool import Spool
from cede.serve.client.unsent import Memory, Row, Unsent

BATCH = 2000  # steps of a request
GATHER = 0.02  # seconds in which what comes together is sent together
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds before it tries again
TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
WRONG = (400, 409, 413, 422)  # what was told is wrong; any other refusal says something of the token, the address or the server
QUICKLY = 1.0  # seconds for the first policy, where there is an old one
LOOK = 10.0  # seconds after which what others left in a spool is looked for again

Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """A request that a flow makes. It is sent the response; Unreachable if there was none."""

    method: str
    path: str
    json: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None  # seconds, at most; None: as usual


@dataclass(frozen=True)
class Pause:
    """A wait, in seconds."""

    seconds: float


@dataclass(frozen=True)
class Work:
    """A function that may have to wait for a disk. The flow is sent its answer."""

    call: Callable[[], Any]


@dataclass(frozen=True)
class Unreachable:
    """No response, and why."""

    error: Exception


Flow = Generator[Request | Pause | Work, Any, Result]


class Denied(ValueError):
    """What the token does not allow."""


@dataclass(frozen=True)
class Options:
    """How a client was made, checked."""

    url: str
    token: str = field(repr=False)
    timeout: float
    refresh: float
    spool: Path | None

    @classmethod
    def checked(cls, owner: str, url: Any, token: Any, timeout: Any, refresh: Any, spool: Any) -> "Options":
        """Check the arguments of a client."""
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or not check.is_text(url):
            check.fail(owner, "url", check.show(url), "the address of a service, as in 'http://localhost:8000'")
        check.name(owner, "token", token)
        if not token.isascii() or not token.isprintable():
            check.fail(owner, "token", "odd", "as `cede token create` printed it")
        timeout, refresh = (check.number(owner, n, one, least=0.01) for n, one in (("timeout", timeout), ("refresh", refresh)))
        return cls(url.rstrip("/"), token, timeout, refresh, None if spool is None else path_to_write(owner, "spool", spool))

    def http(self) -> dict[str, Any]:
        """Return the arguments of a connection."""
        return {"base_url": self.url, "headers": {"authorization": f"Bearer {self.token}"}, "timeout": self.timeout}

    def unsent(self) -> Unsent:
        """Return where what is to be told waits."""
        return Memory() if self.spool is None else Spool(self.spool, self.url)


@dataclass
class Backoff:
    """How long to wait before the next try: longer and longer, and never all at once."""

    pause: float = FIRST_PAUSE

    def after(self, least: float) -> float:
        """Return how long to wait after a failure. least: what the service asked for."""
        result = max(least, self.pause * random.uniform(0.5, 1.0))
        self.pause = min(LONGEST_PAUSE, 2 * self.pause)
        return result

    def reset(self) -> None:
        """Begin anew: it worked."""
        self.pause = FIRST_PAUSE


def address(name: str) -> str:
    """Return the path of a team."""
    return f"/v1/teams/{quote(name, safe='')}"


def detail_of(answer: Any) -> str:
    """Return what a service says about an error."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"service: status is {answer.status_code}, must be 200"


def retry_after(answer: Any) -> float:
    """Return how many seconds the service asks to wait."""
    told = answer.headers.get("retry-after", "")
    return float(told) if told.isdecimal() else 0.0


def refused(answer: Any) -> bool:
    """Return whether the service itself refuses a request, for whatever reason: what stands between may answer anything."""
    kind = str(answer.headers.get("content-type", ""))
    return 400 <= int(answer.status_code) < 500 and kind.startswith("application/problem+json")


def accepted(answer: Any, rows: Sequence[Row]) -> bool:
    """Return whether the service says that it has all steps of some rows."""
    try:
        told = answer.json()
        n = int(told["new"]) + int(told["duplicates"])
    except (ValueError, KeyError, TypeError):
        return False
    return int(answer.status_code) == 200 and n == sum(row.steps is None for row in rows)


# ------------------------------------------------------------------------------------------------- policies


def newest_copy(name: str, old: Copy | None, timeout: float | None = None) -> Flow[Copy]:
    """Ask for the policy of a team; return the newest copy, which is the old one if there is none or the service is in trouble.

    What the service refuses is raised in its words; that it cannot be reached, as what it is. The tag is kept together with what it
    belongs to.
    """
    headers = {} if old is None or old.tag is None else {"if-none-match": old.tag}
    answer = yield Request("GET", f"{address(name)}/policy", headers=headers, timeout=timeout)
    if isinstance(answer, Unreachable):
        raise answer.error
    status = answer.status_code
    if status == 304 and old is not None:
        return replace(old, got=time.monotonic())
    if status == 200:
        return copy_of(answer)
    if status == 404 and (old is None or old.policy is None):  # no plan yet, or no such team
        answer = yield Request("GET", address(name), timeout=timeout)
        if isinstance(answer, Unreachable):
            raise answer.error
        if answer.status_code == 200:
            return Copy(None, answer.json(), None, time.monotonic())
    if old is None or status not in (*TRY_AGAIN, 404):
        raise (Denied if answer.status_code == 403 else ValueError)(detail_of(answer))
    return old


def copy_of(answer: Any) -> Copy:
    """Return the policy that an answer holds."""
    try:
        about = answer.json()
        policy = np.array(about.pop("policy"), dtype=np.int16)
        if policy.shape != shape_of(about):
            raise ValueError
        return Copy(policy, about, answer.headers["etag"], time.monotonic())
    except (ValueError, KeyError, TypeError, OverflowError):
        check.fail("service", "its answer", "no policy", "one; does something else answer in its place?")


def first_copy(name: str, unsent: Unsent) -> Flow[Copy]:
    """Return a copy to begin with: the newest one; if there is one in the spool and the service does not answer quickly, that."""
    kept: Copy | None = (yield Work(lambda: unsent.policy(name))) if isinstance(unsent, Spool) else None
    try:
        found = yield from newest_copy(name, kept, None if kept is None else QUICKLY)
    except ValueError:
        raise
    except Exception:
        if kept is None:
            raise
        return kept
    yield from keep(name, unsent, kept, found)
    return found


def later_copy(name: str, unsent: Unsent, old: Copy | None) -> Flow[Copy]:
    """Return the newest copy, and keep it in the spool."""
    found: Copy = yield from newest_copy(name, old)
    yield from keep(name, unsent, old, found)
    return found


def keep(name: str, unsent: Unsent, old: Copy | None, found: Copy) -> Flow[None]:
    """Keep a copy in the spool, if there is one. old: what was there; of the same policy only the time is written."""
    if isinstance(unsent, Spool) and found is not old:
        same = old is not None and old.policy is found.policy
        yield Work(lambda: unsent.keep(name, found, time_only=same))


# ------------------------------------------------------------------------------------------------- telling


class Sender:
    """Sends what waits, and remembers what came of it.

    refused: what the service said to what it does not want, until somebody was told. aside: the same of what it does not take from
    this client, though nothing is wrong with it. problem: why nothing can be sent now, where waiting alone will not help; None:
    nothing of that kind. rounds: how often it has tried.
    """

    def __init__(self, unsent: Unsent) -> None:
        self.unsent = unsent
        self.refused: list[str] = []
        self.aside: str | None = None
        self.problem: Exception | None = None
        self.rounds = 0
        self._backoff = Backoff()

    def round(self) -> Flow[float]:
        """Send one batch; return how long to wait before the next. What goes wrong is remembered, not raised."""
        try:
            rows = yield Work(lambda: self.unsent.batch(BATCH))
            least = (yield from self._tell(rows)) if rows else None
        except Exception as error:  # of the spool, for example: whoever sends goes on
            self.problem, least = error, 0.0
        self.rounds += 1
        if least is not None:
            return self._backoff.after(least)
        self._backoff.reset()
        return 0.0

    def _tell(self, rows: Sequence[Row]) -> Flow[float | None]:
        """Send rows; return None if that is settled, else how long to wait at least."""
        answer = yield Request("POST", "/v1/steps", json=body_of(rows))
        if isinstance(answer, Unreachable):
            return 0.0
        if answer.status_code in TRY_AGAIN:
            return retry_after(answer)
        if accepted(answer, rows):
            self.problem = None
            yield Work(lambda: self.unsent.settle(rows))
            return None
        if not refused(answer):
            what = f"service: its answer is of status {answer.status_code} and not its own, must be: does something stand between?"
            self.problem = ValueError(what)
            return 0.0
        if answer.status_code == 401:  # nobody looked at it, and a token can be renewed
            self.problem = ValueError(detail_of(answer))
            return 0.0
        self.problem = None
        parts = smaller(rows)
        if len(parts) > 1:  # one of them is wrong: the others must not suffer
            waits = []
            for one in parts:
                waits.append((yield from self._tell(one)))
            return max((one for one in waits if one is not None), default=None)
        detail = detail_of(answer)
        if answer.status_code in WRONG:
            yield Work(lambda: self.unsent.refuse(rows, detail))
            self.refused.append(detail)
            return None
        yield Work(lambda: self.unsent.put_aside(rows))  # it is tried again, by somebody
        self.aside, self.problem = detail, ValueError(detail)
        return 0.0

    def check_problem(self, since: int) -> None:
        """Raise why nothing can be sent, if that was found out after a number of rounds."""
        if self.problem is not None and self.rounds > since:
            raise self.problem

    def check_refused(self) -> None:
        """Raise what was refused, or put aside, once."""
        told, self.refused, self.aside = [*self.refused, *([] if self.aside is None else [self.aside])], [], None
        if told:
            raise ValueError(told[0] if len(told) == 1 else f"{told[0]} (and {len(told) - 1} more)")


def body_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Return rows as the body of a request."""
    steps = [{"team": row.team, **row.body} for row in rows if row.steps is None]
    ends = [{"team": row.team, "episode": row.episode, "steps": row.steps} for row in rows if row.steps is not None]
    return {"steps": steps, "ends": ends}


def smaller(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Return the parts of which each can be right without the others: episodes; of one that was not ended, two halves of its steps.

    Steps of a run without a horizon are counted one by one. An episode that has an end is counted as a whole, or not at all.
    """
    episodes: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        episodes.setdefault((row.team, row.episode), []).append(row)
    if len(episodes) == 1 and len(rows) > 1 and all(row.steps is None for row in rows):
        return [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    return list(episodes.values())


# ------------------------------------------------------------------------------------------------- what the service answers itself


def insist(request: Request, patience: float) -> Flow[Any]:
    """Make a request that may be made twice, again and again for some seconds; return the content of the answer."""
    until, backoff = time.monotonic() + patience, Backoff()
    while True:
        answer = yield request
        lost = isinstance(answer, Unreachable)
        if not lost and answer.status_code not in TRY_AGAIN:
            return content_of(answer)
        wait = backoff.after(0.0 if lost else retry_after(answer))
        if time.monotonic() + wait >= until:
            if lost:
                raise answer.error
            return content_of(answer)
        yield Pause(wait)


def once(request: Request) -> Flow[Any]:
    """Make a request once; return the content of the answer."""
    answer = yield request
    if isinstance(answer, Unreachable):
        raise answer.error
    return content_of(answer)


def content_of(answer: Any) -> Any:
    """Return what an answer holds; what the service refuses is raised in its own words."""
    if answer.status_code >= 400:
        raise (Denied if answer.status_code == 403 else ValueError)(detail_of(answer))
    return answer.json()


def begin_flow(name: str, patience: Any) -> Flow[Any]:
    """Begin an episode, under a key of its own: however often it must be asked, it is one."""
    headers = {"idempotency-key": secrets.token_hex(16)}
    seconds = check.number("begin", "patience", patience, least=0.0)
    return insist(Request("POST", f"{address(name)}/episodes", json={}, headers=headers), seconds)


def decide_flow(name: str, t: Any, state: Any, prev_agent: Any) -> Flow[Any]:
    """Ask the service who should act."""
    asked = {"t": t, "state": state, "prev_agent": prev_agent}
    given = {n: check.integer("decide", n, one, 0) for n, one in asked.items() if n != "t" or one is not None}
    return once(Request("POST", f"{address(name)}/decide", json=given))


def report_flow(name: str, steps: Any, ends: Any, patience: Any) -> Flow[Any]:
    """Tell the service steps and ends of episodes. They are keyed, so this may be asked again."""
    seconds = check.number("report", "patience", patience, least=0.0)
    told = {"steps": list(check.items("report", "steps", steps, "a list of steps")), "ends": list(ends)}
    return insist(Request("POST", f"{address(name)}/steps", json=told), seconds)


def environment_flow(name: Any, learner: Any) -> Flow[Any]:
    """Make an environment with the task and settings of a learner."""
    check.instance("put_environment", "learner", learner, Learner)
    header, arrays = pack_learner(learner.saved)
    file = io.BytesIO()
    write_arrays(file, "learner", SCHEMA, header, arrays)
    path = f"/v1/environments/{quote(check.name('put_environment', 'name', name), safe='')}"
    return once(Request("PUT", path, content=file.getvalue(), headers={"content-type": "application/octet-stream"}))


def team_flow(name: Any, environment: str, seed: int, fallback: Any, own: Any) -> Flow[Any]:
    """Make a team."""
    data = {"environment": environment, "seed": seed, "fallback": fallback, "own": own or {}}
    return once(Request("PUT", address(check.name("put_team", "name", name)), json=data))
