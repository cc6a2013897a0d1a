"""What the site takes from outside of docs/: pictures and tables of results, benchmarks, and the changelog.

The pages link to them as they lie in the repository, so that they can be read there, too.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parent
OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:studies/results|benchmarks/results)/[\w.-]+)\)")
FOLDERS = re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?:benchmarks|studies|examples)[\w/]*\)")


def on_files(files, config):
    wanted = {"changelog.md": ROOT / "CHANGELOG.md"}
    for page in files.documentation_pages():
        wanted |= {name: ROOT / name for name in OUTSIDE.findall(page.content_string)}
    for name, path in wanted.items():
        if not path.exists():
            raise FileNotFoundError(f"{path.relative_to(ROOT)} is linked from the documentation and is not there")
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    up = "../" * page.file.src_uri.count("/")
    return FOLDERS.sub(r"`\1`", OUTSIDE.sub(rf"]({up}\1)", markdown))
