"""How the scripts that write files print values: the bytes of the elements in hexadecimal, texts divided by |."""

import numpy as np


def hexed(value):
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, (bytes, np.bytes_)):
        return bytes(value).hex()
    value = np.asarray(value)
    if value.dtype.kind in "OSU":
        return "|".join(hexed(v) for v in value.ravel())
    if value.dtype.kind in "Mm":
        value = value.view("i8")
    return np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<"))).tobytes().hex()
