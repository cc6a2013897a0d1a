"""Decide whether a stored run can be used again: digest the source code that determines its result.

A run is a call of a function in a module, of cede or of another package. Its result can depend on that module and on every module
of cede, and of its own package, that is imported from there, directly or through other modules. `code_digest` finds these modules
by reading import statements, and digests their files together with the data files of their packages. A change of one of these
files changes the digest, and the run is made again.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).parent.parent  # the folder of cede

# Modules whose own code is left out of every digest, each with the reason why it cannot change a number. Their imports count.
NOT_DIGESTED = {
    "cede._base.progress": "shows a progress bar",
    "cede._base.extras": "imports optional packages and writes pictures",
    "cede.worlds.pictures": "draws roads and drives",
    "cede.comparison.look": "holds colours and fonts",
}

STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)  # syntax nodes that are statements or hold some


@cache
def code_digest(module: str, left_out: frozenset[str] = frozenset()) -> str:
    """Digest all code and data, of cede and of a module's package, that can change the results of the module's functions.

    module: the full name of a module, such as "studies.runs.river". left_out: names of modules whose own code does not count, and
    of folders whose data do not count, as NOT_DIGESTED. Returns 64 hexadecimal digits. Files are read once for each process.
    """
    modules, own, without = reached_from(module), top_of(module), NOT_DIGESTED.keys() | left_out
    files = {file for name in modules - without if (file := source_file(name, own)) is not None}
    files |= {data for name in modules for data in data_files(name, own, without)}
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{name_of(file, own)} {file_digest(file)}\n".encode())
    return digest.hexdigest()


def top_of(module: str) -> str:
    """Return the package of a module: the first part of its name."""
    return module.partition(".")[0]


def name_of(file: Path, own: str) -> str:
    """Return the name of a file in a digest: its path within cede, or within the package `own`."""
    if file.is_relative_to(PACKAGE):
        return file.relative_to(PACKAGE).as_posix()
    return f"{own}/{file.relative_to(folder_of(own)).as_posix()}"


@cache
def folder_of(package: str) -> Path:
    """Return the folder of a package. Raises ValueError if it is no package."""
    if package == PACKAGE.name:
        return PACKAGE
    spec = find_spec(package)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    if not places:
        raise ValueError(f"code_digest: package is {package!r}, must be one that can be imported")
    return Path(places[0])


def reached_from(module: str) -> set[str]:
    """Return the names of the module and of all modules, of cede and of its own package, that it imports, directly or not."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += imported_by(name, top_of(module))
    return reached


@cache
def imported_by(module: str, own: str = PACKAGE.name) -> frozenset[str]:
    """Return the modules, of cede and of the package `own`, that one module names in import statements anywhere in its file, and
    the packages around it.

    Imports under `if TYPE_CHECKING` are never executed and do not count. A public name that is taken from `cede` stands for the
    module that defines it; `import cede` stands for all of these modules.
    """
    file = source_file(module, own)
    if file is None:
        raise ValueError(f"code_digest: module is {module!r}, must be a module of {own}")
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    names = [module]
    for name in imported_names(executed(ast.parse(file.read_bytes())), package):
        names += homes_of(name)
    around = {part for name in names for part in and_packages_around(name)}
    return frozenset(name for name in around if source_file(name, own)) - {module}


def homes_of(dotted: str) -> list[str]:
    """Return a dotted name, and the dotted name of its definition if it is a public name of cede; of all of them for `cede`."""
    top, _, name = dotted.partition(".")
    if top != PACKAGE.name or "." in name:
        return [dotted]
    homes = public_names()
    return [dotted, *(homes.values() if not name else [homes[name]] if name in homes else [])]


@cache
def public_names() -> dict[str, str]:
    """Return the dotted name of the definition of each public name of cede, which `cede` lists under `if TYPE_CHECKING`."""
    tree = ast.parse((PACKAGE / "__init__.py").read_bytes())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and top_of(node.module or "") == PACKAGE.name]
    return {alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}


def executed(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all statements of a file, also those inside of functions, except those under `if TYPE_CHECKING`."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting += node.orelse
        else:
            waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, STATEMENTS)]


def imported_names(nodes: Iterable[ast.AST], package: str) -> list[str]:
    """Return the dotted names in import statements. `from cede.x import y` gives cede.x.y, because y may be a module;
    `import cede.x` gives cede.x and cede, because it makes both available.

    nodes: syntax nodes of a file; package: the package that the file is in, for relative imports.
    """
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
            names += [alias.name.split(".")[0] for alias in node.names if alias.asname is None]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names += [f"{base}.{alias.name}" for alias in node.names]
    return names


def and_packages_around(dotted: str) -> list[str]:
    """Return a dotted name and all its beginnings: a.b.c gives a, a.b and a.b.c. Python imports packages from the outside in."""
    parts = dotted.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


@cache
def source_file(module: str, own: str = PACKAGE.name) -> Path | None:
    """Return the file of a module or package, of cede or of the package `own`; None if there is no such module."""
    top, *inner = module.split(".")
    if top not in (PACKAGE.name, own):
        return None
    path = folder_of(top).joinpath(*inner)
    candidates = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((file for file in candidates if file.is_file()), None)


def data_files(module: str, own: str, without: Iterable[str]) -> Iterator[Path]:
    """Yield all files of a package that are not Python code, also those in folders which are no packages themselves.

    without: folders that are left out, by their dotted names.
    """
    file = source_file(module, own)
    if file is not None and file.name == "__init__.py":
        yield from data_in(file.parent, {name.rpartition(".")[2] for name in without if name.rpartition(".")[0] == module})


def data_in(folder: Path, without: Iterable[str] = ()) -> Iterator[Path]:
    """Yield the data files of one folder, without hidden files, compiled code, packages, and folders of certain names."""
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name == "__pycache__" or path.name in without:
            continue
        if path.is_dir() and not (path / "__init__.py").exists():
            yield from data_in(path)
        elif path.is_file() and path.suffix not in (".py", ".pyc"):
            yield path


@cache
def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
