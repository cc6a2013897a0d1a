"""Files of arrays with a JSON header: written completely or not at all, and never pickled.

A file is an uncompressed NumPy .npz. One of its arrays holds the header, as the bytes of a JSON text. `load_arrays` checks a file
before anything in it is used: that it is complete (a checksum over header and arrays), that no array claims more bytes than there
are, and that kind and schema are what the caller expects. Any defect is raised as `UnreadableFile`.

`describe` turns a frozen dataclass into JSON and arrays, field by field; `rebuild` calls its constructor, which checks the values
again.
"""

import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from cede._base import check
from cede._base.interrupts import interrupts_later

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Arrays = dict[str, NDArray[Any]]

HEADER = "header"  # name of the array that holds the header
RECORD = b'{"event":"header","kind":"record"'  # how the first line of a record begins
READABLE = "biuf"  # dtype.kind of arrays that are read: truth values and numbers; no objects, no text


class UnreadableFile(ValueError):
    """Raised by `cede.load` for a file that is damaged, of another kind, or written by a version of cede whose files this one
    cannot read.
    """


def write_whole(path: Path, text: str) -> None:
    """Write a text file completely or not at all, as `replace_whole` does."""
    replace_whole(path, lambda file: file.write(text.encode()))


def replace_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Replace a file in one step: a reader sees the old file or the new one, never a part of it.

    write: a function that writes the contents to an open file. That file lies in the same directory, is synced, and is then renamed
    to `path`; of several writers, the last complete one wins. Leftovers of killed writers are removed. If `path` is a link, its
    target is replaced; the mode stays. Interrupts are deferred.
    """
    try:
        with interrupts_later():
            mode = mode_of(path)  # fails for circular links
            target = path.resolve() if path.is_symlink() else path
            check_not_recorded(path, target)
            remove_leftovers(target.parent)
            partial, file = new_partial(target)
            try:
                with file:  # locked until the file is closed, so that no process removes it as a leftover
                    write(file)
                    file.flush()
                    if mode is not None:
                        partial.chmod(mode)
                    os.fsync(file.fileno())
                    partial.replace(target)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
            sync_directory(target.parent)
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


def check_not_recorded(path: Path, target: Path) -> None:
    """Check that the file to be replaced is not a record in use: its later steps would be lost."""
    with suppress(OSError), target.open("rb") as file:
        if file.read(len(RECORD)) == RECORD and not try_lock(file):
            check.fail("save", "path", repr(str(path)), "another file: a record is being written there")


def mode_of(path: Path) -> int | None:
    """Return the permissions of the file at a path, None if the file does not exist. Fails for anything but a regular file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Is no regular file", str(path))
    return stat.S_IMODE(status.st_mode)


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file for reading; fails for anything else: opening a pipe could block."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "Is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


LEFTOVER = re.compile(r"\..*\.[0-9a-f]{16}\.cede-partial", re.DOTALL)  # names of files that are being written


def new_partial(path: Path) -> tuple[Path, IO[bytes]]:
    """Make a new file beside `path` for its new contents; return its path and the open file, locked by this process.

    The lock shows that its writer is alive: it ends with the process.
    """
    name = path.name if len(os.fsencode(path.name)) <= 200 else hashlib.sha256(os.fsencode(path.name)).hexdigest()
    while True:
        partial = path.with_name(f".{name}.{secrets.token_hex(8)}.cede-partial")
        file = partial.open("xb")
        try:
            is_ours = try_lock(file) and is_same(partial, file)
        except OSError:  # a file system without locks: there leftovers are kept
            is_ours = True
        if is_ours:
            return partial, file
        file.close()  # another process removed it as a leftover before it was locked


def remove_leftovers(directory: Path) -> None:
    """Remove the unlocked partial files of killed writers from a directory. Without file locks, leftovers are kept."""
    with suppress(OSError):
        leftovers = [entry for entry in os.scandir(directory) if LEFTOVER.fullmatch(entry.name)]
        for partial in (Path(entry.path) for entry in leftovers if entry.is_file(follow_symlinks=False)):
            with suppress(OSError), open_regular(partial) as file:
                if try_lock(file) and is_same(partial, file):
                    partial.unlink()


def try_lock(file: IO[bytes]) -> bool:
    """Try to lock a file; return whether this process holds the lock. Raises OSError where files cannot be locked."""
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "Files cannot be locked")
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(file: IO[bytes]) -> None:
    """Release the lock of a file at once, even if a forked process has not closed its copy of the file yet."""
    if fcntl is not None:
        fcntl.flock(file.fileno(), fcntl.LOCK_UN)


def is_same(path: Path, file: IO[bytes]) -> bool:
    """Return whether a path still refers to an open file."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(file.fileno()))
    except OSError:
        return False


def sync_directory(directory: Path) -> None:
    """Sync a directory, where the system can, so that a rename survives a power failure."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def path_to_write(owner: str, place: str, given: Any) -> Path:
    """Check that a value is the path of a file, not of a directory; return it."""
    path = check.path(owner, place, given)
    if path.is_dir():
        check.fail(owner, place, repr(str(path)), "the path of a file: it is a directory")
    if os.fspath(given).endswith(("/", os.sep)):
        check.fail(owner, place, check.show(given), "the path of a file: it ends as that of a directory")
    return path


def check_writable(owner: str, place: str, given: Any) -> Path:
    """Check, before a long computation, that a file can be written at a path; return the path. Changes no file."""
    path = path_to_write(owner, place, given)
    try:
        mode_of(path)
        partial, file = new_partial(path)
        file.close()
        partial.unlink()
    except OSError as error:
        check.fail(owner, place, repr(str(path)), f"a file that can be written ({error.strerror})")
    return path


def save_arrays(path: Path, kind: str, schema: int, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write arrays and a header to a file, completely or not at all.

    kind, schema: what the file is, as in "learner", and the version of its layout; `load_arrays` checks both. header: what JSON can
    hold. arrays: NumPy arrays by name.
    """
    replace_whole(path, lambda file: write_arrays(file, kind, schema, header, arrays))


def write_arrays(file: IO[bytes], kind: str, schema: int, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write arrays and a header to an open file or an `io.BytesIO`. The arguments are those of `save_arrays`."""
    about, arrays = {"kind": kind, "schema": schema, **header}, {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    text = json.dumps({**about, "checksum": checksum(about, arrays)})
    everything: dict[str, Any] = {HEADER: np.frombuffer(text.encode(), dtype=np.uint8), **arrays}
    np.savez(file, **everything)


def checksum(header: Mapping[str, Any], arrays: Arrays) -> str:
    """Return a SHA-256, in hexadecimal, of a header and of the names, types, shapes and contents of arrays."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def load_arrays(
    source: Path | bytes, kinds: str | tuple[str, ...], schema: int, oldest: int | None = None
) -> tuple[dict[str, Any], Arrays]:
    """Read and check a file, or the bytes of one, and return its header and its arrays by name.

    kinds: the accepted kind or kinds. schema: the required schema; with `oldest`, any from `oldest` to `schema`. Any other file,
    and any damage, raises `UnreadableFile`.
    """
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    kind, path = " or ".join(kinds), source if isinstance(source, Path) else "these bytes"
    if isinstance(source, Path):
        mode = source.stat().st_mode
        if not stat.S_ISREG(mode):  # opening it might wait for ever
            what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise UnreadableFile(f"{path}: is {what}, must be a {kind} of cede")
    with open_regular(source) if isinstance(source, Path) else io.BytesIO(source) as opened:
        try:
            size = os.fstat(opened.fileno()).st_size if isinstance(source, Path) else len(source)
            with zipfile.ZipFile(opened) as file:
                arrays = {name.removesuffix(".npy"): read_array(file, name) for name in names_in(file, size)}
            header = json.loads(arrays.pop(HEADER).tobytes())
            claimed, stored_sum = (header["kind"], header["schema"]), header.pop("checksum", None)
        except Exception as error:  # damage can make a reader of archives, numbers and text fail in many ways
            raise UnreadableFile(f"{path}: cannot be read, must be a {kind} of cede; it is another file, or damaged") from error
    is_ours = claimed[0] in kinds and type(claimed[1]) is int and claimed[1] > 0
    what = f"{path}: is a {claimed[0]} of schema {claimed[1]}"
    if is_ours and claimed[1] > schema:
        raise UnreadableFile(f"{what}, must be at most {schema}: it is of a newer cede")
    if is_ours and claimed[1] < (oldest or schema):
        expected = f"must be {schema}: it is of an older cede, whose files this one does not read; load it with that version"
        raise UnreadableFile(f"{what}, {expected}")
    if not is_ours:
        is_now = f"a {check.printable(claimed[0])[:60]} of schema {check.printable(claimed[1])[:60]}"
        raise UnreadableFile(f"{path}: is {is_now}, must be a {kind} of schema {schema}")
    if checksum(header, arrays) != stored_sum:
        raise UnreadableFile(f"{path}: cannot be read, must be as it was written; its checksum is not that of its contents")
    return header, arrays


def kind_of(source: Path | bytes) -> str | None:
    """Return the kind that a file claims to have, unchecked; None if it claims none."""
    try:
        with (
            open_regular(source) if isinstance(source, Path) else io.BytesIO(source) as opened,
            zipfile.ZipFile(opened) as file,
        ):
            names_in(file, os.fstat(opened.fileno()).st_size if isinstance(source, Path) else len(source))
            kind = json.loads(read_array(file, f"{HEADER}.npy").tobytes())["kind"]
    except Exception:  # `load_arrays` says what is wrong with it
        return None
    return kind if isinstance(kind, str) else None


def names_in(file: zipfile.ZipFile, size: int) -> list[str]:
    """Return the names of the members of an archive, after checks: no duplicates, no compression, and at most `size` bytes in
    total, since overlapping members would need far more memory than the file.
    """
    for member in file.infolist():
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise ValueError(f"{member.filename} is compressed")
    claimed = sum(member.file_size for member in file.infolist())
    if claimed > size:
        raise ValueError(f"the members claim {claimed} bytes")
    names = file.namelist()
    if len(set(names)) < len(names):
        raise ValueError("a name occurs twice")
    return names


def read_array(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read one array of an archive, after a check that it holds numbers and has the size stated in its header."""
    data = file.read(name)
    with file.open(name) as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(member)
        begin = member.tell()
    count = math.prod(shape)
    known = dtype.kind in READABLE and dtype.isnative
    if not known or fortran or min(shape, default=0) < 0 or count * dtype.itemsize != len(data) - begin:
        raise ValueError(f"{name} claims {shape} of {dtype}")
    return np.frombuffer(data, dtype, count, begin).reshape(shape).copy()


# ------------------------------------------------------------------------------------------------- dataclasses


def describe(value: Any, name: str, arrays: Arrays) -> Any:
    """Return a value in a form that JSON can hold. Arrays in it are put into `arrays`, under names that begin with `name`.

    Numbers, text, None, sequences, mappings, NumPy arrays, SciPy matrices and dataclasses of these can be described.
    """
    if is_dataclass(value):
        inside = {field.name: describe(getattr(value, field.name), f"{name}/{field.name}", arrays) for field in fields(value)}
        return {"class": type(value).__name__, **inside}
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if sp.issparse(value):
        arrays |= {f"{name}/{part}": getattr(value, part) for part in ("data", "indices", "indptr")}
        return {"sparse": name, "shape": list(value.shape)}
    if isinstance(value, Mapping):
        return {"map": [[key, describe(item, f"{name}/{i}", arrays)] for i, (key, item) in enumerate(value.items())]}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [describe(item, f"{name}/{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is not None and not isinstance(value, bool | int | float | str):
        raise TypeError(f"{name} is {value!r}, must be data: a function cannot be written to a file")
    return value


def rebuild(described: Any, arrays: Arrays, classes: Mapping[str, Callable[..., Any]]) -> Any:
    """Return the value that `describe` described: the inverse of `describe`.

    arrays: the arrays that `describe` collected, by name. classes: the permitted dataclasses, by name; their constructors check the
    values. Sequences become tuples.
    """
    if isinstance(described, list):
        return tuple(rebuild(item, arrays, classes) for item in described)
    if not isinstance(described, dict):
        return described
    if "array" in described:
        return arrays[described["array"]]
    if "sparse" in described:
        return rebuild_sparse(described["sparse"], described["shape"], arrays)
    if "map" in described:
        return {key: rebuild(item, arrays, classes) for key, item in described["map"]}
    inside = {name: rebuild(item, arrays, classes) for name, item in described.items() if name != "class"}
    return classes[described["class"]](**inside)


def rebuild_sparse(name: str, shape: Sequence[int], arrays: Arrays) -> sp.csr_array:
    """Return a described sparse matrix, after a check of its indices: SciPy itself does not check them."""
    data, columns, ends = (arrays[f"{name}/{part}"] for part in ("data", "indices", "indptr"))
    n_rows, n_columns = (int(side) for side in shape)
    whole = data.ndim == columns.ndim == ends.ndim == 1 and data.shape == columns.shape and ends.shape == (n_rows + 1,)
    if not whole or columns.dtype.kind != "i" or ends.dtype.kind != "i":
        raise ValueError(f"{name} is torn")
    if (columns < 0).any() or (columns >= n_columns).any() or ends[0] != 0 or ends[-1] != columns.size or (np.diff(ends) < 0).any():
        raise ValueError(f"{name} has places beyond its shape")
    return sp.csr_array((data, columns, ends), shape=(n_rows, n_columns))


def digest(value: Any) -> str:
    """Return a SHA-256, in hexadecimal, of any value that can be described. Equal values have equal digests."""
    arrays: Arrays = {}
    described = describe(value, "", arrays)
    return checksum({"value": described}, arrays)
