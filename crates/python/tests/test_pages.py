"""The pages are true: their Python runs, block after block, in a folder with `photos/` and `shards/`."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import packhorse as ph
import pytest

PAGES = Path(__file__).parents[3] / "docs"
RUN = """
import re, sys, warnings
warnings.simplefilter("ignore")
page, missing = sys.argv[1], sys.argv[2].split(",")
text, names = open(page, encoding="utf-8").read(), {"__name__": "__main__"}
for block in re.finditer(r"```python\\n(.*?)```", text, re.S):
    code, line = block[1], text[: block.start()].count("\\n") + 2
    needs = re.match(r"# needs (.*)", code)
    if needs and any(name in missing for name in re.split(", | and ", needs[1])):
        continue
    exec(compile("\\n" * (line - 1) + code, page, "exec"), names)
"""


def can_be_had(name, folder):
    """Whether the package, or the file, that a block needs is there."""
    return (folder / name).exists() or ("." not in name and importlib.util.find_spec(name) is not None)


@pytest.mark.parametrize("without", ["", "torch", "all"])
@pytest.mark.parametrize("page", ["python.md", "migrating.md", "diagnose.md", "observe.md"])
def test_the_python_of_a_page_runs(page, without, tmp_path, monkeypatch):
    """Blocks that begin with `# needs NAME` run where NAME is installed, and depend on no block that another machine leaves out."""
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "packhorse"]
    subprocess.run([*command, "synth", "images", "--count", "600", "--out", "photos"], check=True, capture_output=True)
    ph.pack("photos", "shards", "webdataset", labels="folders")
    text = (PAGES / page).read_text(encoding="utf-8")
    needs = {name for line in re.findall(r"^# needs (.*)$", text, re.M) for name in re.split(", | and ", line)}
    missing = [name for name in needs if without in (name, "all") or not can_be_had(name, tmp_path)]
    ran = subprocess.run([sys.executable, "-c", RUN, str(PAGES / page), ",".join(missing)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
