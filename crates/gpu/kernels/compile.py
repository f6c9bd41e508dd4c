#!/usr/bin/env python3
"""Compiles the kernels beside this file to PTX, or with --check says which PTX is not what its source gives.

Needs no GPU and no toolkit, only the wheel nvidia-cuda-nvrtc-cu12==12.0.140: whose PTX (ISA 8.0) drivers from 525 on
take. The same wheel gives the same bytes everywhere. Ends with 1 where PTX is stale, with 3 where the wheel is missing.
"""
import ctypes
import glob
import importlib.util
import os
import sys

OPTIONS = ["--gpu-architecture=compute_75", "--std=c++14", "-default-device", "--fmad=false"]
VERSION = (12, 0)
HERE = os.path.dirname(os.path.abspath(__file__))


def digest(name, headers):
    """FNV-1a (64 bits) of the options and the texts that a PTX is made of; tests/ptx.rs has it too."""
    value = 0xCBF29CE484222325
    texts = [" ".join(OPTIONS).encode(), *(text for _, text in headers), read(name)]
    for byte in b"\0".join(texts):
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"{value:016x}"


def read(name):
    with open(os.path.join(HERE, name), "rb") as file:
        return file.read()


def library():
    try:
        spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        print("needs the wheel: pip install nvidia-cuda-nvrtc-cu12==12.0.140", file=sys.stderr)
        sys.exit(3)
    folder = os.path.join(list(spec.submodule_search_locations)[0], "lib")
    # The part with the device functions is looked up by its plain name when a program is compiled.
    for name in sorted(glob.glob(os.path.join(folder, "libnvrtc-builtins.so*"))):
        ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(os.path.join(folder, "libnvrtc.so.12"))
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != VERSION:
        sys.exit(f"needs NVRTC {VERSION[0]}.{VERSION[1]}, found {major.value}.{minor.value}")
    return nvrtc


def text_of(nvrtc, program, what):
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    out = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, out)
    return out.value


def strings(items):
    return (ctypes.c_char_p * len(items))(*items)


def compile(nvrtc, name, headers):
    program = ctypes.c_void_p()
    names, texts = strings([n.encode() for n, _ in headers]), strings([t for _, t in headers])
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), read(name), name.encode(), len(headers), texts, names)
    options = strings([option.encode() for option in OPTIONS])
    failed = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options)
    log = text_of(nvrtc, program, "ProgramLog").decode().strip()
    if log:
        print(log, file=sys.stderr)
    if failed:
        sys.exit(f"{name} does not compile")
    return f"// sources {digest(name, headers)}\n".encode() + text_of(nvrtc, program, "PTX")


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit("usage: compile.py [--check]")
    nvrtc = library()
    headers = [(name, read(name)) for name in sorted(os.listdir(HERE)) if name.endswith(".cuh")]
    stale = []
    for name in sorted(name for name in os.listdir(HERE) if name.endswith(".cu")):
        ptx = compile(nvrtc, name, headers)
        target = os.path.join(HERE, name[:-3] + ".ptx")
        if check:
            with open(target, "rb") as file:
                if file.read() != ptx:
                    stale.append(name[:-3] + ".ptx")
        else:
            with open(target, "wb") as file:
                file.write(ptx)
    if stale:
        sys.exit(f"not what the sources give: {', '.join(stale)}; run compile.py")


main()
