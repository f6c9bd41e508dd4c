"""`load_dataset(FOLDER)` gives the splits of a dataset: each argument after the folder is SPLIT=SAMPLES."""

import os
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
TEMPORARY = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = TEMPORARY.name

import datasets  # noqa: E402

datasets.disable_progress_bars()
loaded = datasets.load_dataset(sys.argv[1])
found = {name: split.num_rows for name, split in loaded.items()}
wanted = {name: int(count) for name, count in (argument.split("=") for argument in sys.argv[2:])}
assert found == wanted, f"{found}, not {wanted}"
print(found)
