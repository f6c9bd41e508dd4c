"""Prints what uproot reads from every branch of every tree and RNTuple of the given files, as JSON lines.

A branch is named as packhorse names it. `digest` is the MD5 of its values: the offsets of each depth of
lists as little-endian i64 (from 0), outermost first, then the values (for text: offsets of the strings, then
UTF-8), little-endian and without gaps.

With `--names` as the first argument only the names of branches that are not just groups of others.
"""
import hashlib
import json
import re
import sys

import awkward as ak
import numpy as np
import uproot

# uproot takes other bytes of these for lengths, and fails after a quarter of a minute each.
FAILS = ("IOVMetaDataContainer_p1",)

NUMBERS = {"b": "Boolean", "i": "Int", "u": "UInt", "f": "Float"}


class Other(Exception):
    """Raised for types that packhorse's columns can't hold: records, maps, missing values."""


def walk(layout, offsets):
    """The offsets of each depth into `offsets`; the values' bytes and type."""
    if isinstance(layout, ak.contents.IndexedArray):
        layout = layout.project()
    if isinstance(layout, ak.contents.ListArray):
        layout = layout.to_ListOffsetArray64(True)
    if isinstance(layout, ak.contents.ListOffsetArray):
        layout = layout.to_ListOffsetArray64(True)
        ends = np.asarray(layout.offsets.data).astype("<i8")
        offsets.append(ends.tobytes())
        if layout.parameter("__array__") == "string":
            return np.asarray(layout.content.data)[: ends[-1]].tobytes(), "Utf8View"
        return walk(layout.content[: ends[-1]], offsets)
    if isinstance(layout, ak.contents.RegularArray):
        inner = layout.content[: layout.size * layout.length]
        # Fixed dimensions inside lists are lists too, and those around lists.
        shown = str(layout.form.type)
        if offsets or "var" in shown or "string" in shown:
            offsets.append((np.arange(layout.length + 1, dtype="<i8") * layout.size).tobytes())
        return walk(inner, offsets)
    if isinstance(layout, ak.contents.NumpyArray):
        data = np.asarray(layout.data)
        if data.dtype.kind == "b":
            # uproot keeps the byte; what it means is whether it is 0.
            data = data.view("u1") != 0
        if offsets:
            for depth in range(1, data.ndim):
                lists = int(np.prod(data.shape[:depth]))
                offsets.append((np.arange(lists + 1, dtype="<i8") * data.shape[depth]).tobytes())
        name = NUMBERS[data.dtype.kind]
        name = name if name == "Boolean" else f"{name}{8 * data.dtype.itemsize}"
        return np.ascontiguousarray(data).astype(data.dtype.newbyteorder("<")).tobytes(), name
    if isinstance(layout, ak.contents.EmptyArray):
        return b"", "any"
    raise Other(type(layout).__name__)


def object_bits(branch, listed):
    """The fBits of TObjects, as TStreamerInfo reads them: two bytes more where a TRef points at the object.

    uproot takes them for four bytes each, whatever they are.
    """
    ends, values = [0], []
    for number in range(branch.num_baskets):
        basket = branch.basket(number)
        data, offsets = bytes(basket.data), basket.byte_offsets
        spans = [(0, len(data))] if offsets is None else zip(offsets[:-1], offsets[1:])
        for at, end in spans:
            while at < end:
                bits = int.from_bytes(data[at : at + 4], "big")
                values.append(bits)
                at += 6 if bits & 1 << 4 else 4
            assert at == end
            ends.append(len(values))
    values = ak.contents.NumpyArray(np.array(values, dtype="<u4"))
    if not listed:
        return ak.Array(values)
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(np.array(ends)), values))


def digest(array):
    offsets = []
    values, element = walk(ak.to_layout(array), offsets)
    found = hashlib.md5()
    for part in offsets:
        found.update(part)
    found.update(values)
    return {"digest": found.hexdigest(), "element": element, "entries": len(array)}


def kind_of(branch, interpretation):
    """The line of the table in docs/root.md that the branch counts in."""
    name = type(interpretation).__name__
    shown, typename = str(interpretation), branch.typename
    if name == "UnknownInterpretation":
        return "not read by uproot either"
    if len(branch.branches) > 0:
        return "TClonesArray: how many"
    if "Double32" in typename or "Float16" in typename:
        return "Double32_t, Float16_t"
    if name == "AsStrings":
        return {"char*": "char[] (TLeafC)", "TString": "TString"}.get(typename, "std::string")
    if name == "AsDtype":
        if typename.startswith("struct"):
            return "list of leaves"
        return "fixed array x[3]" if "[" in typename else "number"
    if name == "AsJagged" and "AsStridedObjects" not in shown:
        if "header_bytes=10" in shown:
            return "std::vector of numbers"
        if "header_bytes=1" in shown:
            return "pointer to a counted array"
        return "counted array x[n], members of split collections"
    if name == "AsObjects" and re.fullmatch(r"(?:std::|vector|set|TString|string|u?int\d+_t|float|double|bool|[<>, ])+", typename):
        return "nested vectors and sets, vectors of strings"
    if "bitset" in typename or "map<" in typename:
        return "std::map, std::bitset"
    return "objects of classes"


def named(names, name):
    found, count = name, 1
    while found in names:
        count += 1
        found = f"{name}#{count}"
    names.add(found)
    return found


def path_of(name, parent):
    name = name.rstrip(".").replace("/", ".")
    return name if parent is None or name.startswith(parent + ".") else f"{parent}.{name}"


def branches(parent, path, names):
    for branch in parent.branches:
        inner = path_of(branch.name, path)
        yield branch, inner
        yield from branches(branch, inner, names)


def of_branch(branch, path, names):
    try:
        interpretation = branch.interpretation
    except Exception as error:  # noqa: BLE001
        interpretation = error
    if type(interpretation).__name__ == "AsGrouped":
        if branch.member("fType", none_if_missing=True) == 3:
            # A TClonesArray that is a member through a pointer: uproot groups its branches, and passes over the counts.
            counts = branch.array(interpretation=uproot.AsDtype(">i4"))
            yield {"branch": named(names, path), "kind": "TClonesArray: how many", "type": branch.typename, **digest(counts)}
        return
    kind = kind_of(branch, interpretation)
    if kind == "list of leaves":
        array = branch.array()
        for field in array.fields:
            yield {"branch": named(names, f"{path}.{field}"), "kind": kind, "type": branch.typename, **digest(array[field])}
        return
    line = {"branch": named(names, path), "kind": kind, "type": branch.typename}
    try:
        if branch.typename in FAILS:
            raise Other(branch.typename)
        if kind in ("objects of classes", "std::map, std::bitset"):
            for name, layout in leaves(ak.to_layout(branch.array()), line["branch"]):
                yield line | {"branch": name} | digest(layout)
            return
        leaf = branch.member("fLeaves")[0]
        if leaf.has_member("fType") and leaf.member("fType") == 15:
            line |= digest(object_bits(branch, leaf.member("fLeafCount") is not None))
        elif kind != "not read by uproot either":
            line |= digest(branch.array())
    except Exception as error:  # noqa: BLE001
        line["error"] = f"{type(error).__name__}: {error}"[:200]
    yield line


def of_tree(tree):
    names = set()
    for branch, path in branches(tree, None, names):
        yield from of_branch(branch, path, names)


def leaves(layout, path):
    """The columns that a field or branch becomes: records vanish into the names."""
    if isinstance(layout, ak.contents.RecordArray):
        if not layout.fields:
            yield path, Other("a record without members")
        for i, (field, content) in enumerate(zip(layout.fields, layout.contents)):
            name = f"_{i}" if layout.is_tuple else field
            if layout.parameter("__array__") == "sorted_map":
                name = ("first", "second")[i]
            yield from leaves(content[: layout.length], f"{path}.{name}")
    elif isinstance(layout, ak.contents.ListOffsetArray) and layout.parameter("__array__") != "string":
        layout = layout.to_ListOffsetArray64(True)
        for name, content in leaves(layout.content[: layout.offsets[-1]], path):
            yield name, content if isinstance(content, Exception) else ak.contents.ListOffsetArray(layout.offsets, content)
    elif isinstance(layout, ak.contents.RegularArray):
        for name, content in leaves(layout.content[: layout.size * layout.length], path):
            regular = ak.contents.RegularArray
            yield name, content if isinstance(content, Exception) else regular(content, layout.size, layout.length)
    elif isinstance(layout, (ak.contents.NumpyArray, ak.contents.ListOffsetArray, ak.contents.EmptyArray)):
        yield path, layout
    else:
        yield path, Other(type(layout).__name__)


def ntuple_kind(layout, typename):
    if isinstance(layout, Exception) and "without members" in str(layout):
        return "RNTuple: records without members"
    if isinstance(layout, Exception):
        return "RNTuple: values that may be missing, variants"
    form = str(layout.form.type)
    if form.count("var *") > 0:
        return "RNTuple: lists"
    if "string" in form:
        return "RNTuple: strings"
    return "RNTuple: fixed arrays" if "*" in form else "RNTuple: numbers"


def of_ntuple(ntuple):
    names = set()
    for field in ntuple.fields:
        try:
            # Of very long trees only the first million entries are compared.
            array = field.array(entry_stop=1_000_000) if ntuple.num_entries > 10_000_000 else field.array()
            if "RNTupleCardinality" in field.typename:
                # The type that the file says; uproot gives that of the column of ends.
                array = ak.values_astype(array, "uint64" if "64" in field.typename else "uint32")
            found = list(leaves(ak.to_layout(array), field.name))
        except Exception as error:  # noqa: BLE001
            name = named(names, field.name)
            yield {"branch": name, "kind": "RNTuple: not read by uproot either", "type": field.typename, "error": str(error)[:200]}
            continue
        for path, layout in found:
            line = {"branch": named(names, path), "kind": ntuple_kind(layout, field.typename), "type": field.typename}
            yield line | ({} if isinstance(layout, Exception) else digest(layout))


def names_of(opened):
    """All top-level branches and fields with data that uproot lists."""
    for key, name in opened.classnames(recursive=True, cycle=True).items():
        if name in ("TTree", "TNtuple", "TNtupleD"):
            for branch, path in branches(opened[key], None, set()):
                if len(branch.branches) == 0:
                    yield key, path
        elif "RNTuple" in name:
            for field in opened[key].fields:
                yield key, field.name


def main():
    if sys.argv[1:2] == ["--names"]:
        for file in sys.argv[2:]:
            with uproot.open(file) as opened:
                for tree, branch in names_of(opened):
                    print(json.dumps({"file": file, "tree": tree, "branch": branch, "kind": "name"}))
        return
    for file in sys.argv[1:]:
        with uproot.open(file) as opened:
            for key, name in opened.classnames(recursive=True, cycle=True).items():
                if name in ("TTree", "TNtuple", "TNtupleD"):
                    for line in of_tree(opened[key]):
                        print(json.dumps({"file": file, "tree": key, **line}))
                elif "RNTuple" in name:
                    for line in of_ntuple(opened[key]):
                        print(json.dumps({"file": file, "tree": key, **line}))


main()
