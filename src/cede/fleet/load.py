"""Reads learners, fleets and encoders from files."""

from pathlib import Path

from cede._base import check
from cede._base.archive import UnreadableFile, kind_of, load_arrays
from cede.features import encode
from cede.features.encoder import Encoder
from cede.fleet.files import unpack_fleet
from cede.fleet.fleet import Fleet
from cede.learners.files import OLDEST, SCHEMA
from cede.learners.learner import Learner
from cede.learners.reading import unpack_learner
from cede.steps.read_record import is_record

KINDS = ("learner", "fleet")


def load(source: str | Path | bytes) -> Learner | Fleet | Encoder:
    """Read a learner, a fleet or an encoder that was saved with its `save`, and return it as it was: a Learner, a Fleet or an
    `encode.Encoder`.

    source: a path, or the bytes of such a file. Anything that is wrong with the file is raised as `UnreadableFile`.
    """
    where = source if isinstance(source, bytes) else check.path("load", "source", source)
    if (isinstance(where, bytes) or where.is_file()) and kind_of(where) == "encoder":
        return encode.load(where)
    if isinstance(where, Path) and is_record(where):
        raise UnreadableFile(f"{where}: is a record of steps, must be a learner or fleet of cede; cede.read_record reads records")
    header, arrays = load_arrays(where, KINDS, SCHEMA, OLDEST)
    kind = header["kind"]
    try:
        if kind == "learner":
            return unpack_learner(header, arrays)
        saved = unpack_fleet(header, arrays)
        return Fleet.restored(saved.task, saved.learners, saved.environment)
    except Exception as error:  # a file from outside may be wrong in any way
        place = "these bytes" if isinstance(where, bytes) else where
        raise UnreadableFile(f"{place}: cannot be read, must be a {kind} of cede; it is damaged ({error})") from error
