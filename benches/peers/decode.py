"""How fast other libraries decode JPEGs to RGB arrays, on one thread.

    pip install pillow numpy simplejpeg==1.9.0 opencv-python-headless==5.0.0.93
    decode.py FOLDER

Pictures a second of CPU time, best of several rounds. A library that is not there is left out.
"""

import io
import pathlib
import sys
import time

ROUNDS = 5


def pillow():
    import numpy
    from PIL import Image

    return lambda data: numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def pillow_crop():
    import numpy
    from PIL import Image

    def crop(data):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        w, h = image.width * 7 // 10, image.height * 7 // 10
        return numpy.asarray(image.crop((9, 9, 9 + w, 9 + h)).resize((224, 224), Image.Resampling.BILINEAR))

    return crop


def simplejpeg():
    import simplejpeg

    return lambda data: simplejpeg.decode_jpeg(data, "RGB")


def opencv():
    import cv2
    import numpy

    cv2.setNumThreads(1)
    flags = cv2.IMREAD_COLOR
    return lambda data: cv2.cvtColor(cv2.imdecode(numpy.frombuffer(data, numpy.uint8), flags), cv2.COLOR_BGR2RGB)


def main():
    pictures = [path.read_bytes() for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.jpg"))]
    for name, make in [("Pillow", pillow), ("Pillow, crop and resize", pillow_crop), ("simplejpeg", simplejpeg), ("OpenCV", opencv)]:
        try:
            decode = make()
        except ImportError as error:
            print(f"  {name}: {error}")
            continue
        best = float("inf")
        for _ in range(ROUNDS):
            start = time.thread_time()
            for picture in pictures:
                decode(picture)
            best = min(best, (time.thread_time() - start) / len(pictures))
        print(f"  {name:36} {1 / best:7.0f}/s")


if __name__ == "__main__":
    main()
