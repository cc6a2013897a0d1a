"""Files: written whole or not at all, and never pickled. Arrays go into NumPy's .npz, uncompressed, with a JSON header.

What is read is checked before it is believed: that the file is whole (a checksum over header and arrays), that it claims no more
than it holds, that it is of the kind and schema that the reader understands. All that is wrong with a file is an `UnreadableFile`.

`describe` and `rebuild` take frozen dataclasses apart and put them together again, field by field, through their own checks.
"""

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

HEADER = "header"  # name of the array that holds it
READABLE = "biuf"  # kinds of numbers; no objects, no text


class UnreadableFile(ValueError):
    """A file that is damaged, of another kind, or of a newer cede."""


def write_whole(path: Path, text: str) -> None:
    """Text, as `replace_whole` writes it."""
    replace_whole(path, lambda file: file.write(text.encode()))


def replace_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """To a temporary file, synced, then renamed: a reader sees the old file or the new one, never a piece."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def save_arrays(path: Path, kind: str, schema: int, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write arrays and a header to a file. kind and schema tell whether a reader understands them."""
    replace_whole(path, lambda file: write_arrays(file, kind, schema, header, arrays))


def write_arrays(file: IO[bytes], kind: str, schema: int, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write arrays and a header to an open file, or to `io.BytesIO`."""
    about, arrays = {"kind": kind, "schema": schema, **header}, {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    text = json.dumps({**about, "checksum": checksum(about, arrays)})
    everything: dict[str, Any] = {HEADER: np.frombuffer(text.encode(), dtype=np.uint8), **arrays}
    np.savez(file, **everything)


def checksum(header: Mapping[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def load_arrays(source: Path | bytes, kinds: str | tuple[str, ...], schema: int) -> tuple[dict[str, Any], Arrays]:
    """Read the header and the arrays of a file, or of the bytes of one, of this kind, or of one of these kinds."""
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    kind, path = " or ".join(kinds), source if isinstance(source, Path) else "these bytes"
    try:
        size = source.stat().st_size if isinstance(source, Path) else len(source)
        with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as opened, zipfile.ZipFile(opened) as file:
            arrays = {name.removesuffix(".npy"): read_array(file, name) for name in names_in(file, size)}
        header = json.loads(arrays.pop(HEADER).tobytes())
        found, promised = (header["kind"], header["schema"]), header.pop("checksum", None)
    except OSError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise UnreadableFile(f"{path}: cannot be read, must be a {kind} of cede; it is another file, or damaged") from error
    if found[0] in kinds and isinstance(found[1], int) and found[1] > schema:
        raise UnreadableFile(f"{path}: is a {found[0]} of schema {found[1]}, must be at most {schema}: it is of a newer cede")
    if found[0] in kinds and isinstance(found[1], int) and not isinstance(found[1], bool) and 0 < found[1] < schema:
        expected = f"must be {schema}: it is of an older cede, whose files this one does not read; load it with that version"
        raise UnreadableFile(f"{path}: is a {found[0]} of schema {found[1]}, {expected}")
    if found[0] not in kinds or found[1] != schema:
        raise UnreadableFile(f"{path}: is a {found[0]} of schema {found[1]}, must be a {kind} of schema {schema}")
    if checksum(header, arrays) != promised:
        raise UnreadableFile(f"{path}: cannot be read, must be as it was written; its checksum is not that of its contents")
    return header, arrays


def names_in(file: zipfile.ZipFile, size: int) -> list[str]:
    """The members of an archive, none of which claims more bytes than there are."""
    for member in file.infolist():
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size or member.file_size > size:
            raise ValueError(f"{member.filename} claims {member.file_size} bytes")
    names = file.namelist()
    if len(set(names)) < len(names):
        raise ValueError("a name occurs twice")
    return names


def read_array(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One array, if its own header claims no more than is there."""
    data = file.read(name)
    with file.open(name) as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(member)
        begin = member.tell()
    count = 1
    for side in shape:
        count *= int(side)
    if dtype.kind not in READABLE or fortran or min(shape, default=0) < 0 or count * dtype.itemsize != len(data) - begin:
        raise ValueError(f"{name} claims {shape} of {dtype}")
    return np.frombuffer(data, dtype, count, begin).reshape(shape).copy()


# ------------------------------------------------------------------------------------------------- dataclasses


def describe(value: Any, name: str, arrays: Arrays) -> Any:
    """Return a value as JSON can hold it. Arrays in it go into `arrays`, under names that begin with `name`.

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
        return {"map": [[key, describe(one, f"{name}/{i}", arrays)] for i, (key, one) in enumerate(value.items())]}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [describe(one, f"{name}/{i}", arrays) for i, one in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is not None and not isinstance(value, bool | int | float | str):
        raise TypeError(f"{name} is {value!r}, must be data: a function cannot be written to a file")
    return value


def rebuild(described: Any, arrays: Arrays, classes: Mapping[str, Callable[..., Any]]) -> Any:
    """Return the value that was described. Dataclasses are made by their own constructors, which check them."""
    if isinstance(described, list):
        return tuple(rebuild(one, arrays, classes) for one in described)
    if not isinstance(described, dict):
        return described
    if "array" in described:
        return arrays[described["array"]]
    if "sparse" in described:
        return rebuild_sparse(described, arrays)
    if "map" in described:
        return {key: rebuild(one, arrays, classes) for key, one in described["map"]}
    inside = {name: rebuild(one, arrays, classes) for name, one in described.items() if name != "class"}
    return classes[described["class"]](**inside)


def rebuild_sparse(described: Mapping[str, Any], arrays: Arrays) -> sp.csr_array:
    """Return the matrix that was described, after a look at its places: SciPy trusts them."""
    data, columns, ends = (arrays[f"{described['sparse']}/{part}"] for part in ("data", "indices", "indptr"))
    n_rows, n_columns = (int(side) for side in described["shape"])
    whole = data.ndim == columns.ndim == ends.ndim == 1 and data.shape == columns.shape and ends.shape == (n_rows + 1,)
    if not whole or columns.dtype.kind != "i" or ends.dtype.kind != "i":
        raise ValueError(f"{described['sparse']} is torn")
    if (columns < 0).any() or (columns >= n_columns).any() or ends[0] != 0 or ends[-1] != columns.size or (np.diff(ends) < 0).any():
        raise ValueError(f"{described['sparse']} has places beyond its shape")
    return sp.csr_array((data, columns, ends), shape=(n_rows, n_columns))


def digest(value: Any) -> str:
    """Return a digest of a value that can be described: equal for equal values."""
    arrays: Arrays = {}
    described = describe(value, "", arrays)
    return checksum({"value": described}, arrays)
