"""Writes NetCDF files into a folder, and prints what xarray reads along their record dimension.

One line of JSON per file and set of options: its name, the options, for each field one text per sample as in
make_foreign.py, the names of omitted fields, and the words that the error must contain, if one is expected.
"""

import json
import sys
import warnings
from pathlib import Path

import netCDF4
import numpy as np
import xarray as xr

from hexed import hexed as one

warnings.simplefilter("ignore")
DIR = Path(sys.argv[1])
N = 29
rng = np.random.default_rng(3)


def say(name, fields=None, omitted=(), error="", **options):
    print(json.dumps({"file": name, "options": options, "fields": fields or {}, "omitted": sorted(omitted), "error": error}))


def read(name, dimension, apply, group=None):
    """The variables over `dimension` first, and all others."""
    fields, others = {}, []
    prefix = f"{group}." if group else ""
    how = dict(decode_times=False, decode_coords=False, mask_and_scale=apply, engine="netcdf4")
    with xr.open_dataset(DIR / name, group=group, **how) as data:
        for key, variable in data.variables.items():
            if variable.dims[:1] == (dimension,):
                fields[prefix + key] = [one(v) for v in variable.values]
            else:
                others.append(prefix + key)
    return fields, others


def both(name, over, groups=(), **options):
    for apply in [False, True]:
        fields, others = read(name, over, apply)
        for group in groups:
            more = read(name, over, apply, group)
            fields, others = fields | more[0], others + more[1]
        say(name, fields, others, **options, **({"scale": "apply"} if apply else {}))


def packed():
    with netCDF4.Dataset(DIR / "packed.nc", "w") as f:
        f.set_auto_maskandscale(False)
        f.createDimension("time", None)
        f.createDimension("lat", 3)
        f.createDimension("bare", 2)
        f.createDimension("chars", 6)
        time = f.createVariable("time", "f8", ("time",))
        time.units, time.calendar = "hours since 1900-01-01", "gregorian"
        time[:] = np.arange(N)
        f.createVariable("lat", "f4", ("lat",))[:] = [1, 2, 3]
        f.createVariable("weight", "f4", ("lat", "time"))[:] = rng.normal(size=(3, N))
        f.createVariable("crs", "i4")[...] = 7

        def variable(name, dtype, low, high, fill=None, dims=("time", "lat"), **attributes):
            v = f.createVariable(name, dtype, dims, fill_value=fill, zlib=True, shuffle=True)
            shape = tuple(N if d == "time" else len(f.dimensions[d]) for d in dims)
            x = rng.integers(low, high, shape) if np.dtype(dtype).kind in "iu" else rng.normal(size=shape) * high
            if fill is not None:
                x[rng.integers(0, 4, shape) == 0] = fill
            v.setncatts(attributes)
            v[:] = x.astype(dtype)

        f4, f8 = np.float32, np.float64
        variable("t2m", "i2", -32000, 32000, -32767, scale_factor=0.0017, add_offset=273.15)
        variable("small", "i2", -99, 99, -99, scale_factor=f4(0.1), add_offset=f4(3.3))
        variable("wide", "i4", -99999, 99999, 7, scale_factor=f4(0.1), add_offset=f4(3.3))
        variable("mixed", "i1", -9, 9, scale_factor=f4(0.1), add_offset=f8(3.3))
        variable("scale", "u2", 0, 999, 5, scale_factor=f4(0.3))
        variable("offset", "i2", -99, 99, add_offset=f4(0.3))
        variable("masked", "i2", 0, 9, 3)
        variable("longs", "i8", 0, 9, 3, missing_value=np.int64(4))
        variable("floats", ">f4", 0, 9, np.float32(1e20), dims=("time", "lat", "bare"))
        variable("doubles", "f8", 0, 9, missing_value=f8(2.5))
        variable("unsigned", "i1", -128, 128, np.int8(-1), _Unsigned="true", scale_factor=0.5)
        variable("othersign", "i2", -99, 99, _Unsigned="true")
        variable("signed", "u1", 0, 255, _Unsigned="false")
        variable("plain", "i4", 0, 99, **{f"note{i}": f"a note of some length {i}" for i in range(20)})
        variable("noted", "i2", 0, 99, 9, scale_factor=2.0, **{f"note{i}": f"a note of some length {i}" for i in range(20)})
        names = f.createVariable("names", "S1", ("time", "chars"))
        names[:] = netCDF4.stringtochar(np.array([b"s%d" % i for i in range(N)], "S6"))
        f.createVariable("texts", str, ("time",))[:] = np.array(["é" * (i % 4) for i in range(N)], object)
        inner = f.createGroup("deep")
        inner.createVariable("over", "i2", ("time",))[:] = np.arange(N)
        inner.createDimension("own", None)
        inner.createVariable("aside", "i2", ("own",))[:] = np.arange(4)
    both("packed.nc", "time", ["deep"], dimension="time")
    fields, others = read("packed.nc", "time", False)
    say("packed.nc", error="read=dimension=")
    say("packed.nc", {key: fields[key] for key in ["t2m", "time"]}, datasets="t2m,time")
    say("packed.nc", error="no dimension height", dimension="height")


def grows():
    """Variables over an unlimited dimension that were not written to its end, and one never written."""
    with netCDF4.Dataset(DIR / "grows.nc4", "w") as f:
        f.createDimension("time", None)
        f.createDimension("x", 2)
        f.createVariable("long", "i4", ("time", "x"))[:] = np.arange(2 * N).reshape(N, 2)
        f.createVariable("short", ">i2", ("time", "x"), fill_value=-5, endian="big")[:7] = 1
        f.createVariable("never", "f8", ("time",))
    both("grows.nc4", "time")


def xarrays():
    """A file written by xarray: dimensions of fixed length, Booleans, times."""
    data = xr.Dataset(
        {
            "image": (("sample", "y", "x"), rng.normal(size=(N, 4, 3)).astype("f4")),
            "good": (("sample",), np.arange(N) % 2 == 0),
            "name": (("sample",), np.array([f"n{i}" for i in range(N)])),
            "filled": (("sample",), np.where(np.arange(N) % 3 == 0, np.nan, np.arange(N)), {}, {"dtype": "i2", "_FillValue": -1}),
        },
        {"y": np.arange(4.0), "sample": np.arange(N)},
    )
    data.to_netcdf(DIR / "xarray.nc", engine="netcdf4")
    both("xarray.nc", "sample")
    with netCDF4.Dataset(DIR / "square.nc", "w") as f:
        f.createDimension("x", N)
        f.createDimension("y", N)
        f.createVariable("x", "f4", ("x", "y"))[:] = rng.normal(size=(N, N))
        f.createVariable("v", "f4", ("x",))[:] = np.arange(N)
        f.createVariable("w", "f4", ("y",))[:] = np.arange(N)
    with netCDF4.Dataset(DIR / "square.nc") as f:
        x = {"x": [one(v) for v in f["x"][:].filled()], "v": [one(v) for v in f["v"][:].filled()]}
    say("square.nc", error="read=dimension=")
    say("square.nc", x, ["w"], dimension="x")


def times():
    """Numbers since a date, as xarray decodes them; other units stay numbers."""
    with netCDF4.Dataset(DIR / "times.nc", "w") as f:
        f.set_auto_maskandscale(False)
        f.createDimension("time", None)
        f.createDimension("two", 2)

        def variable(name, dtype, values, dims=("time",), fill=None, **attributes):
            v = f.createVariable(name, dtype, dims, fill_value=fill)
            v.setncatts(attributes)
            v[:] = values

        steps = np.arange(N)
        variable("time", "i8", steps * 6, units="hours since 2019-01-01", calendar="proleptic_gregorian", bounds="time_bnds")
        variable("time_bnds", "i8", np.stack([steps * 6, steps * 6 + 6], 1), dims=("time", "two"))
        variable("era5", "i4", 1043136 + steps, units="hours since 1900-01-01 00:00:00.0", calendar="gregorian")
        variable("halves", "f8", steps / 2, units="days since 2000-2-29 12:30:15.25", calendar="standard")
        variable("small", ">i2", -steps, units="seconds since 1970-01-01T00:00:00Z")
        variable("zone", "f4", steps, units="minutes since 1999-12-31 18:00:00 -6:00")
        variable("missing", "i4", np.where(steps % 3, steps, -9), fill=-9, units="days since 1958-01-01")
        variable("gone", "f8", np.where(steps % 5, steps * 1.0, np.nan), units="milliseconds since 2020-06-01")
        variable("packed", "i2", steps, units="hours since 2021-01-01", scale_factor=0.25, add_offset=3.0)
        variable("bounds", "u4", np.stack([steps, steps + 1], 1), dims=("time", "two"), units="days since 2001-01-01")
        variable("speed", "f4", steps, units="m s-1")
    with xr.open_dataset(DIR / "times.nc", decode_coords=False, decode_timedelta=False, engine="netcdf4") as data:
        values = {key: variable.values for key, variable in data.variables.items()}
    is_time = {key: value.dtype.kind == "M" for key, value in values.items()}
    assert sorted(key for key in values if not is_time[key]) == ["speed"], is_time
    fields = {key: [one(v) for v in (value.astype("M8[us]") if is_time[key] else value)] for key, value in values.items()}
    say("times.nc", fields, scale="apply", times="decode")
    kept, _ = read("times.nc", "time", False)
    say("times.nc", fields | {key: kept[key] for key in kept if not is_time[key]}, times="decode")
    with netCDF4.Dataset(DIR / "noleap.nc", "w") as f:
        f.createDimension("time", 4)
        time = f.createVariable("time", "f8", ("time",))
        time.units, time.calendar, time[:] = "days since 2000-01-01", "noleap", np.arange(4)
    say("noleap.nc", {"time": [one(np.float64(v)) for v in range(4)]})
    say("noleap.nc", error="calendar noleap", times="decode")


def classic():
    for kind in ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]:
        with netCDF4.Dataset(DIR / f"{kind}.nc", "w", format=kind) as f:
            f.createDimension("x", 3)
            f.createVariable("x", "i4", ("x",))[:] = 1
        say(f"{kind}.nc", error="nccopy -k nc4")


packed()
grows()
xarrays()
times()
classic()
