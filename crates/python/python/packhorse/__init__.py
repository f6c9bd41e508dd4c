"""packhorse packs many small files into few large shards, and streams shards to training loops.

```python
import packhorse

packhorse.pack("photos", "shards", to="webdataset", labels="folders", shuffle=7)
loader = packhorse.open("shards").loader(256, fields={"image": packhorse.Image("jpg", 224), "label": "cls"})
for batch in loader:
    images, labels = batch["image"].torch(), batch["label"].torch()
```
"""

from ._batch import Batch, Keys, Lists as ListArray, Ragged as RaggedArray
from ._dataset import Dataset, concat
from ._dataset import open_dataset as open
from ._diagnose import Diagnosis, diagnose
from ._errors import (
    CancelledError,
    ChangedError,
    ConfigError,
    ContentError,
    Error,
    IncompleteError,
    InternalError,
    LimitError,
    MissingFileError,
    StateError,
    StorageError,
    UnsupportedError,
)
from ._fields import Auto, Bits, Bytes, Class, Dense, Draws, Field, Image, Json, Mask, Number, Present, Ragged
from ._loader import Loader
from ._pack import Packed, Repaired, Verification, append, convert, pack, repair, stat, tokenize, verify
from ._packhorse import Array, __version__, features, prometheus
from ._tokens import TokenDataset, TokenLoader
from ._trace import trace
from ._writer import Writer

__all__ = [
    "Array",
    "Auto",
    "Batch",
    "Bits",
    "Bytes",
    "CancelledError",
    "Class",
    "ChangedError",
    "ConfigError",
    "ContentError",
    "Dataset",
    "Dense",
    "Diagnosis",
    "Draws",
    "Error",
    "Field",
    "Image",
    "IncompleteError",
    "InternalError",
    "Json",
    "Keys",
    "LimitError",
    "Loader",
    "Mask",
    "MissingFileError",
    "Number",
    "Packed",
    "Present",
    "Ragged",
    "RaggedArray",
    "ListArray",
    "Repaired",
    "StateError",
    "StorageError",
    "TokenDataset",
    "TokenLoader",
    "UnsupportedError",
    "Verification",
    "Writer",
    "__version__",
    "append",
    "concat",
    "convert",
    "diagnose",
    "features",
    "open",
    "pack",
    "prometheus",
    "repair",
    "stat",
    "tokenize",
    "trace",
    "verify",
]
