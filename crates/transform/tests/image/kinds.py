"""Pictures of many kinds and modes, and what Pillow makes of them: the oracle of tests/kinds.rs.

    kinds.py DIR            makes pictures, and decodes them
    kinds.py DIR read       only decodes those that are there

For each picture NAME writes NAME.rgb, upright, and to kinds.jsonl one line: file, height, width, most (how far a value
may differ: 0 where nothing is lost).
"""

import json
import os
import struct
import sys

import numpy
from PIL import Image, ImageCms, ImageOps
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from oracle import photo

SIZES = [(1, 1), (7, 5), (33, 18), (130, 97)]


def deep(image):
    """Gray of 16 bits."""
    gray = numpy.asarray(image.convert("L")).astype(numpy.uint16)
    return Image.fromarray(gray * 257)


def modes(image):
    gray = image.convert("L")
    rgba, la = image.copy(), gray.copy()
    rgba.putalpha(gray.transpose(Image.Transpose.FLIP_TOP_BOTTOM))
    la.putalpha(gray.transpose(Image.Transpose.FLIP_LEFT_RIGHT))
    return {
        "rgb": image,
        "gray": gray,
        "rgba": rgba,
        "la": la,
        "palette": image.quantize(40),
        "few": image.quantize(5),
        "bits": gray.convert("1"),
        "cmyk": image.convert("CMYK"),
        "deep": deep(image),
    }


def tiffs(save, size, all):
    compressions = {
        "rgb": [None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"],
        "gray": [None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"],
        "rgba": [None, "tiff_lzw", "tiff_adobe_deflate"],
        "la": [None, "tiff_lzw"],
        "palette": [None, "tiff_lzw", "packbits"],
        "few": [None, "tiff_adobe_deflate"],
        "bits": [None, "group4", "packbits", "tiff_lzw"],
        "cmyk": [None, "tiff_lzw", "tiff_adobe_deflate"],
        "deep": [None, "tiff_lzw", "tiff_adobe_deflate"],
    }
    for mode, kinds in compressions.items():
        for kind in kinds:
            save(all[mode], f"{size}-{mode}-{kind or 'raw'}.tif", 4 if kind == "jpeg" else 0, compression=kind)
    for mode in ["rgb", "gray", "rgba", "deep", "cmyk"]:
        tags = ImageFileDirectory_v2()
        tags[317] = 2
        save(all[mode], f"{size}-{mode}-predicted.tif", compression="tiff_lzw", tiffinfo=tags)
        tags = ImageFileDirectory_v2()
        tags[278] = 3
        save(all[mode], f"{size}-{mode}-strips.tif", compression="tiff_adobe_deflate", tiffinfo=tags)
    # Not of 16 bits: Pillow takes black for white there.
    for mode in ["gray", "bits"]:
        tags = ImageFileDirectory_v2()
        tags[262] = 0
        save(all[mode], f"{size}-{mode}-white.tif", tiffinfo=tags)
    save(all["rgb"], f"{size}-big.tif", big_tiff=True)
    for turn in [2, 3, 6, 8]:
        tags = ImageFileDirectory_v2()
        tags[274] = turn
        save(all["rgb"], f"{size}-turned{turn}.tif", tiffinfo=tags)


def tiled(path, samples, tile, planes, little):
    """A TIFF in tiles or planes, which Pillow reads and does not write."""
    order = "<" if little else ">"
    height, width, many = samples.shape
    kind = "H" if samples.dtype.itemsize == 2 else "B"
    parts = [samples[:, :, i : i + 1] for i in range(many)] if planes else [samples]
    blobs = []
    for part in parts:
        for y in range(0, height, tile or height):
            for x in range(0, width, tile or width):
                block = part[y : y + (tile or height), x : x + (tile or width)]
                if tile:
                    block = numpy.pad(block, ((0, tile - block.shape[0]), (0, tile - block.shape[1]), (0, 0)))
                blobs.append(block.astype(order + ("u2" if kind == "H" else "u1")).tobytes())
    depth = 16 if kind == "H" else 8
    tags = [(256, 4, [width]), (257, 4, [height]), (258, 3, [depth] * many), (259, 3, [1]), (262, 3, [2 if many >= 3 else 1])]
    tags += [(277, 3, [many]), (284, 3, [2 if planes else 1])]
    if many == 4:
        tags.append((338, 3, [2]))
    offsets, at = [], 8
    for blob in blobs:
        offsets.append(at)
        at += len(blob)
    lengths = [len(blob) for blob in blobs]
    if tile:
        tags += [(322, 4, [tile]), (323, 4, [tile]), (324, 4, offsets), (325, 4, lengths)]
    else:
        tags += [(273, 4, offsets), (278, 4, [height]), (279, 4, lengths)]
    at += at % 2
    entries, extra, behind = b"", b"", at + 2 + 12 * len(tags) + 4
    for tag, type, values in sorted(tags):
        data = struct.pack(order + ("H" if type == 3 else "I") * len(values), *values)
        if len(data) > 4:
            entries += struct.pack(order + "HHII", tag, type, len(values), behind + len(extra))
            extra += data + b"\0" * (len(data) % 2)
        else:
            entries += struct.pack(order + "HHI", tag, type, len(values)) + data.ljust(4, b"\0")
    with open(path, "wb") as out:
        out.write((b"II*\0" if little else b"MM\0*") + struct.pack(order + "I", at) + b"".join(blobs))
        out.write(b"\0" * (at - out.tell()) + struct.pack(order + "H", len(tags)) + entries + b"\0\0\0\0" + extra)


def gifs(folder, save, size, all):
    for mode in ["gray", "palette", "few", "bits", "rgb"]:
        save(all[mode], f"{size}-{mode}.gif")
    save(all["palette"], f"{size}-interlaced.gif", interlace=1)
    save(all["palette"], f"{size}-plain.gif", interlace=0)
    save(all["palette"], f"{size}-clear.gif", transparency=3)
    save(all["rgba"], f"{size}-rgba.gif")
    other = all["palette"].transpose(Image.Transpose.ROTATE_180)
    save(all["palette"], f"{size}-moving.gif", save_all=True, append_images=[other, other], duration=50)
    # A screen that the first frame does not fill.
    with open(os.path.join(folder, f"{size}-moving.gif"), "rb") as file:
        bytes = bytearray(file.read())
    bytes[6:10] = struct.pack("<HH", all["rgb"].width + 9, all["rgb"].height + 4)
    at = bytes.index(b"\x2c", 13 + 3 * (2 << (bytes[10] & 7)))
    bytes[at + 1 : at + 5] = struct.pack("<HH", 5, 2)
    with open(os.path.join(folder, f"{size}-part.gif"), "wb") as file:
        file.write(bytes)


def webps(save, size, all):
    for mode in ["rgb", "gray", "rgba", "palette", "la"]:
        save(all[mode], f"{size}-{mode}-lossless.webp", lossless=True, exact=True)
        for quality in [40, 90]:
            save(all[mode], f"{size}-{mode}-{quality}.webp", 9, quality=quality)
    other = all["rgb"].transpose(Image.Transpose.ROTATE_180)
    save(all["rgb"], f"{size}-moving.webp", save_all=True, append_images=[other], lossless=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    save(all["rgb"], f"{size}-turned.webp", lossless=True, exif=exif)
    xmp = b'<x:xmpmeta><rdf tiff:Orientation="8"/></x:xmpmeta>'
    save(all["rgb"], f"{size}-turned-xmp.webp", lossless=True, xmp=xmp)


def pnms(folder, save, size, all):
    save(all["rgb"], f"{size}-rgb.ppm")
    save(all["gray"], f"{size}-gray.pgm")
    save(all["bits"], f"{size}-bits.pbm")
    save(all["deep"], f"{size}-deep.pgm")
    save(all["rgba"], f"{size}-rgba.pnm")
    width, height = all["gray"].size
    with open(os.path.join(folder, f"{size}-text.ppm"), "w") as out:
        values = " ".join(str(v) for v in numpy.asarray(all["rgb"]).reshape(-1))
        out.write(f"P3\n# made by hand\n{width} {height}\n255\n{values}\n")
    with open(os.path.join(folder, f"{size}-text.pgm"), "w") as out:
        values = " ".join(str(v) for v in numpy.asarray(all["gray"]).reshape(-1) // 17)
        out.write(f"P2\n{width} {height}\n15\n{values}\n")
    with open(os.path.join(folder, f"{size}-text.pbm"), "w") as out:
        values = "\n".join(" ".join(str(int(not v)) for v in row) for row in numpy.asarray(all["bits"]))
        out.write(f"P1\n{width} {height}\n{values}\n")


def make(folder):
    differ = {}

    def save(image, name, most=0, **options):
        image.save(os.path.join(folder, name), **options)
        differ[name] = most

    for width, height in SIZES:
        size, image = f"{width}x{height}", photo(width, height, width)
        all = modes(image)
        tiffs(save, size, all)
        gifs(folder, save, size, all)
        webps(save, size, all)
        pnms(folder, save, size, all)
        for mode in ["rgb", "gray", "rgba", "palette", "few", "bits"]:
            save(all[mode], f"{size}-{mode}.bmp")
        rgb, rgba = numpy.asarray(all["rgb"]), numpy.asarray(all["rgba"])
        for little in [False, True]:
            name = f"{size}-{'little' if little else 'big'}"
            for tile in [16, 64]:
                tiled(os.path.join(folder, f"{name}-tiles{tile}.tif"), rgb, tile, False, little)
                tiled(os.path.join(folder, f"{name}-alpha-tiles{tile}.tif"), rgba, tile, False, little)
            tiled(os.path.join(folder, f"{name}-planes.tif"), rgb, None, True, little)
            tiled(os.path.join(folder, f"{name}-deep-rgb.tif"), rgb.astype(numpy.uint16) * 257, None, False, little)
        # Colours and a camera.
        icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        exif = Image.Exif()
        exif[0x0110], exif[0x0112] = "a camera", 6
        for kind in ["webp", "tif", "png", "jpg"]:
            options = {"lossless": True} if kind == "webp" else {}
            save(image, f"{size}-meta.{kind}", 7 if kind == "jpg" else 0, icc_profile=icc, exif=exif, **options)
        # Another name than it should have.
        save(image, f"{size}-is-png.jpg", format="PNG")
        save(image, f"{size}-is-webp.png", format="WEBP", lossless=True)
        exif = Image.Exif()
        exif[0x0112] = 3
        save(image, f"{size}-turned.png", exif=exif)
        xmp = '<x:xmpmeta><tiff:Orientation>6</tiff:Orientation></x:xmpmeta>'
        info = PngInfo()
        info.add_itxt("XML:com.adobe.xmp", xmp)
        save(image, f"{size}-turned-xmp.png", pnginfo=info)
    return differ


def load(path):
    image = Image.open(path)
    image.load()
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        image = Image.fromarray((numpy.asarray(image) >> 8).astype(numpy.uint8))
    return image


def main():
    folder = sys.argv[1]
    differ = make(folder) if len(sys.argv) == 2 else {}
    with open(os.path.join(folder, "kinds.jsonl"), "w") as lines:
        for name in sorted(os.listdir(folder)):
            if name == "kinds.jsonl" or name.endswith(".rgb"):
                continue
            image = load(os.path.join(folder, name))
            with open(os.path.join(folder, f"{name}.rgb"), "wb") as out:
                out.write(numpy.ascontiguousarray(image.convert("RGB")).tobytes())
            line = {"file": name, "height": image.height, "width": image.width, "most": differ.get(name, 0)}
            line |= {"icc": bool(image.info.get("icc_profile")), "exif": 0x0110 in image.getexif()}
            lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
