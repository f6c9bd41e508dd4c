"""Writes the same fifty samples as others write shards: webdataset, GNU tar, and tarfile with PAX and with GNU names.

Usage: shards_of_others.py DIR
"""

import io
import os
import subprocess
import sys
import tarfile

import webdataset

root = sys.argv[1]


def samples():
    for number in range(50):
        # Every seventh name is longer than a tar header holds.
        key = ("long/" + "n" * 120 + "/") * (number % 7 == 0) + f"sample-{number:03d}"
        yield key, {"bin": (f"{number};" * (number * 37 % 400)).encode(), "cls": str(number % 10).encode()}


def chunks():
    everything = list(samples())
    return [everything[:20], everything[20:21], everything[21:]]


def by_webdataset(directory):
    for i, chunk in enumerate(chunks()):
        with webdataset.TarWriter(f"{directory}/part-{i}.tar", encoder=False) as writer:
            for key, fields in chunk:
                writer.write({"__key__": key, **fields})


def by_tarfile(directory, form):
    for i, chunk in enumerate(chunks()):
        with tarfile.open(f"{directory}/part-{i}.tar", "w", format=form) as tar:
            for key, fields in chunk:
                for field, data in fields.items():
                    member = tarfile.TarInfo(f"{key}.{field}")
                    member.size = len(data)
                    member.pax_headers = {"comment": "x" * 600} if form == tarfile.PAX_FORMAT else {}
                    tar.addfile(member, io.BytesIO(data))


def by_gnu_tar(directory):
    for i, chunk in enumerate(chunks()):
        files = f"{directory}/files-{i}"
        names = []
        for key, fields in chunk:
            for field, data in fields.items():
                names.append(f"{key}.{field}")
                os.makedirs(os.path.dirname(f"{files}/{names[-1]}"), exist_ok=True)
                with open(f"{files}/{names[-1]}", "wb") as out:
                    out.write(data)
        subprocess.run(["tar", "cf", f"{directory}/part-{i}.tar", "-C", files, *names], check=True)


for name in ["webdataset", "gnutar", "pax", "gnu"]:
    os.makedirs(f"{root}/{name}")
by_webdataset(f"{root}/webdataset")
by_gnu_tar(f"{root}/gnutar")
by_tarfile(f"{root}/pax", tarfile.PAX_FORMAT)
by_tarfile(f"{root}/gnu", tarfile.GNU_FORMAT)
