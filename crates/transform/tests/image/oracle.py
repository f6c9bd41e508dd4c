"""What Pillow makes of pictures: the oracle of tests/image.rs.

    oracle.py DIR        makes pictures in DIR, decodes these and those already there

For each picture NAME and view V writes NAME.V.rgb, and to oracle.jsonl one line: file, view, height, width, key.
"""

import json
import math
import os
import random
import struct
import sys

import numpy
from PIL import Image, ImageOps

WHOLE = (1 << 64) - 1


def photo(width, height, seed):
    """Soft light, hard edges, some grain."""
    rng = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:height, 0:width] / max(width, height)
    planes = []
    for channel in range(3):
        a, b, c = rng.uniform(2, 9, 3)
        plane = 128 + 60 * numpy.sin(a * x + b * y) + 40 * numpy.cos(c * (x - y) + channel)
        for _ in range(6):
            cx, cy, r = rng.uniform(0, 1, 3)
            plane[(x - cx) ** 2 + (y - cy) ** 2 < (r / 5) ** 2] += rng.uniform(-90, 90)
        planes.append(plane + rng.normal(0, 4, plane.shape))
    return Image.fromarray(numpy.clip(numpy.stack(planes, -1), 0, 255).astype(numpy.uint8))


def make(folder):
    def save(image, name, **options):
        image.save(os.path.join(folder, name), **options)

    for width, height in [(1, 1), (7, 5), (16, 16), (17, 31), (224, 224), (333, 251)]:
        image = photo(width, height, width)
        for sampling in ["4:4:4", "4:2:2", "4:2:0"]:
            for progressive in [False, True]:
                for quality in [60, 92]:
                    name = f"{width}x{height}-{sampling.replace(':', '')}-{'progressive' if progressive else 'baseline'}-{quality}.jpg"
                    save(image, name, quality=quality, subsampling=sampling, progressive=progressive)
        save(image.convert("L"), f"{width}x{height}-gray.jpg", quality=85)
        save(image.convert("L"), f"{width}x{height}-gray-progressive.jpg", quality=85, progressive=True)
        save(image.convert("CMYK"), f"{width}x{height}-cmyk.jpg", quality=85)
        save(image, f"{width}x{height}-restarts.jpg", quality=85, restart_marker_rows=1)
        save(image, f"{width}x{height}-optimized.jpg", quality=85, optimize=True)
        gray = image.convert("L")
        alpha = gray.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        rgba, la = image.copy(), gray.copy()
        rgba.putalpha(alpha)
        la.putalpha(alpha)
        palette = image.quantize(40)
        for kind, picture in [("rgb", image), ("gray", gray), ("rgba", rgba), ("la", la), ("palette", palette), ("bits", gray.convert("1"))]:
            save(picture, f"{width}x{height}-{kind}.png")
        save(palette, f"{width}x{height}-clear.png", transparency=3)
        save(image.quantize(4), f"{width}x{height}-palette2.png", bits=2)
        save(image, f"{width}x{height}-key.png", transparency=(1, 2, 3))
        save(Image.fromarray(numpy.asarray(gray).astype(numpy.uint16) * 251), f"{width}x{height}-gray16.png")
    for number in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = number
        save(photo(120, 88, number), f"turned{number}.jpg", quality=88, exif=exif)
        save(photo(60, 83, number), f"turned{number}.png", exif=exif)


def number(key, n):
    z = (key + (n + 1) * 0x9E3779B97F4A7C15) & WHOLE
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & WHOLE
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & WHOLE
    return z ^ z >> 31


def unit(key, n):
    return (number(key, n) >> 11) / 2**53


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def random_box(width, height, scale, ratio, key):
    """torchvision's RandomResizedCrop.get_params on other random numbers."""
    scale, ratio = [single(v) for v in scale], [single(v) for v in ratio]
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for n in range(1, 41, 4):
        area = width * height * (scale[0] + unit(key, n) * (scale[1] - scale[0]))
        aspect = math.exp(low + unit(key, n + 1) * (high - low))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return number(key, n + 3) * (width - w + 1) >> 64, number(key, n + 2) * (height - h + 1) >> 64, w, h
    w, h = width, height
    if width / height < ratio[0]:
        h = min(max(round(width / ratio[0]), 1), height)
    elif width / height > ratio[1]:
        w = min(max(round(height * ratio[1]), 1), width)
    return (width - w) // 2, (height - h) // 2, w, h


def center(image, short, height, width, filter):
    """torchvision's Resize(short) and CenterCrop((height, width))."""
    w, h = image.size
    w, h = (short, int(short * h / w)) if w <= h else (int(short * w / h), short)
    image = image.resize((w, h), filter)
    left, top = int(round((w - width) / 2.0)), int(round((h - height) / 2.0))
    return image.crop((left, top, left + width, top + height))


def views(image, key):
    bilinear, bicubic = Image.Resampling.BILINEAR, Image.Resampling.BICUBIC
    yield "keep", image
    yield "squash", image.resize((60, 48), bilinear)
    # Pillow resamples rows, then columns, and cuts to 0 to 255 in between; we do it the other way round.
    turn = Image.Transpose.TRANSPOSE
    yield "squash-bicubic", image.transpose(turn).resize((48, 60), bicubic).transpose(turn)
    yield "center", center(image, 72, 64, 56, bilinear)
    left, top, w, h = random_box(*image.size, (0.08, 1.0), (3 / 4, 4 / 3), key)
    random = image.crop((left, top, left + w, top + h)).resize((56, 64), bilinear)
    if unit(key, 0) < 0.5:
        random = random.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    yield "random", random


def load(path):
    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode.startswith("I"):
        # Pillow clips these to 255; the high byte is what everyone else takes.
        image = Image.fromarray((numpy.asarray(image) >> 8).astype(numpy.uint8))
    return image.convert("RGB")


def main():
    folder = sys.argv[1]
    make(folder)
    random.seed(1)
    with open(os.path.join(folder, "oracle.jsonl"), "w") as lines:
        for name in sorted(os.listdir(folder)):
            if not name.endswith((".jpg", ".png")):
                continue
            key = random.getrandbits(64)
            for view, image in views(load(os.path.join(folder, name)), key):
                with open(os.path.join(folder, f"{name}.{view}.rgb"), "wb") as out:
                    out.write(numpy.ascontiguousarray(image).tobytes())
                line = {"file": name, "view": view, "height": image.height, "width": image.width, "key": key}
                lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
