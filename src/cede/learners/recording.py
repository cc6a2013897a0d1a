"""The record of a learner: its recorder, and which recorded episodes it has counted."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from cede.steps.recorded import Entry, Recorded
from cede.steps.recorder import Recorder


@dataclass(frozen=True)
class Recording:
    """The record of a learner: its recorder or None, and which recorded episodes it has counted."""

    recorder: Recorder | None = None
    earlier: Recorded = field(default_factory=Recorded)  # episodes counted from other records than this recorder's

    @property
    def recorded(self) -> Recorded:
        """Return which episodes of which records were counted, so that none counts twice."""
        return self.earlier if self.recorder is None else self.earlier.of_run(*self.recorder.recorded)

    @property
    def is_open(self) -> bool:
        """Return whether steps are recorded."""
        return self.recorder is not None and self.recorder.is_open

    def together(self, session: str | None) -> AbstractContextManager[None]:
        """Return a context in which the record of a session and the learner change together, or neither does."""
        return nullcontext() if self.recorder is None else self.recorder.all_or_nothing(session)

    def added(self, entry: Entry, counted: int) -> "Recording":
        """Return it with the places of an entry. counted: how many episodes, or steps, of it were counted."""
        return replace(self, earlier=self.earlier.add(entry, counted))

    def ended(self, session: str | None, *, counted: bool) -> "Recording":
        """Return it after the episode of a session was counted or dropped, without a recorder that was closed."""
        closed = self.recorder is not None and not self.is_open
        earlier = (self.recorded if closed else self.earlier).ended(session, counted=counted)
        return Recording(None if closed else self.recorder, earlier)
