"""A digest changes with every module that a run imports, and not with others."""

import pytest

from cede.comparison import code_digest

PUBLIC = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from cede.public import name as name
    from cede.other import thing as thing
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package of the same name, in which imports take every form."""
    files = {
        "__init__.py": PUBLIC,
        "public.py": "",
        "other.py": "",
        "unused.py": "",
        "a/__init__.py": "",
        "a/plain.py": "import cede.b.one as one\n",
        "a/inside.py": "def f():\n    if f:\n        from cede.b import two\n",
        "a/relative.py": "from . import plain\nfrom ..b.two import x\n",
        "a/takes_public.py": "from cede import name\n",
        "a/whole.py": "import cede\n",
        "a/version.py": "from cede import __version__\nimport numpy\nfrom numpy import linalg\n",
        "a/tried.py": "try:\n    import cede.a.plain as plain\nexcept ImportError:\n    import cede.b.two as two\n",
        "a/typed.py": "if typing.TYPE_CHECKING:\n    import cede.unused\nelse:\n    import cede.b.one as one\n",
        "a/in_a_circle.py": "import cede.a.plain as p\nfrom cede.a import in_a_circle\n",
        "b/__init__.py": "",
        "b/one.py": "",
        "b/two.py": "x = 1\n",
        "b/table.csv": "1\n",
        "b/data/more.csv": "1\n",
        "b/__pycache__/one.cpython-311.pyc": "",
        "b/inner/__init__.py": "",
        "b/inner/other.csv": "",
    }
    for name, text in files.items():
        path = tmp_path / "cede" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(code_digest, "PACKAGE", tmp_path / "cede")
    forget()
    yield tmp_path / "cede"
    monkeypatch.undo()
    forget()


def forget():
    for function in (
        code_digest.code_digest,
        code_digest.imported_by,
        code_digest.public_names,
        code_digest.folder_of,
        code_digest.source_file,
        code_digest.file_digest,
    ):
        function.cache_clear()


@pytest.mark.parametrize(
    ("module", "reached"),
    [
        ("a.plain", {"b", "b.one"}),
        ("a.inside", {"b", "b.two"}),
        ("a.relative", {"a.plain", "b", "b.one", "b.two"}),
        ("a.takes_public", {"public"}),
        ("a.whole", {"public", "other"}),
        ("a.version", set()),
        ("a.tried", {"a.plain", "b", "b.one", "b.two"}),
        ("a.typed", {"b", "b.one"}),
        ("a.in_a_circle", {"a.plain", "b", "b.one"}),
    ],
)
def test_imports_are_found_in_every_form(package, module, reached):
    assert code_digest.reached_from(f"cede.{module}") == {"cede", "cede.a", f"cede.{module}", *(f"cede.{name}" for name in reached)}


def test_data_files_of_packages_that_are_reached_count(package):
    def digest():
        forget()
        return code_digest.code_digest("cede.a.plain")

    before = digest()
    for name, counts in (("b/table.csv", True), ("b/data/more.csv", True), ("b/inner/other.csv", False), ("b/two.py", False)):
        text = (package / name).read_text()
        (package / name).write_text(f"{text}2\n")
        assert (digest() != before) == counts, name
        (package / name).write_text(text)
    (package / "b" / "__pycache__" / "new.nbi").write_text("")
    assert digest() == before
    (package / "b" / "table.csv").rename(package / "b" / "other.csv")
    assert digest() != before


def test_a_module_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"code_digest: module is 'cede\.nothing', must be a module of cede"):
        code_digest.code_digest("cede.nothing")


def test_an_own_package_counts_without_what_is_left_out(tmp_path, monkeypatch):
    """A package beside cede: its modules and data count, but for modules and folders that are named."""
    files = {"__init__.py": "", "runs.py": "from own import look, numbers\n", "look.py": "", "numbers.py": "", "tables/one.csv": ""}
    for name, text in files.items():
        path = tmp_path / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest():
        forget()
        return code_digest.code_digest("own.runs", frozenset({"own.look", "own.tables"}))

    before = digest()
    for name, counts in (("look.py", False), ("tables/one.csv", False), ("numbers.py", True), ("table.csv", True)):
        (tmp_path / "own" / name).write_text("NEW = 1\n")
        assert (digest() != before) == counts, name
        before = digest()
    with pytest.raises(ValueError, match="must be one that can be imported"):
        code_digest.code_digest("no_such_package.runs")
