import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
with suppress(ValueError):  # a shell that starts the tests in the background lets them ignore Ctrl-C; tests of interrupts need it
    signal.signal(signal.SIGINT, signal.default_int_handler)

from ci_skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401 (pytest finds its hooks here)
from long_files import pytest_collection_modifyitems  # noqa: F401

sys.dont_write_bytecode = False  # the tests start hundreds of processes: without bytecode each parses all of cede
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
