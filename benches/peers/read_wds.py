"""What other loaders make of tar shards (WebDataset): samples a second and CPU seconds.

    pip install -r tests/interop/requirements.txt            # webdataset, pillow, numpy
    pip install --no-deps -r tests/interop/requirements-heavy.txt    # NVIDIA DALI; its CPU operators need no GPU
    pip install --no-deps nvidia-nvimgcodec-cu12==0.9.0.20           # what DALI decodes with; complaints about nvTIFF are harmless
    pip install simplejpeg==1.9.0 opencv-python-headless==5.0.0.93

    read_wds.py MODE [--jobs N] [--batch B] [--epochs E] [--side S] SHARD.tar...

Modes: wds-raw, wds-pil, wds-simplejpeg (decoded whole), wds-pil-crop, wds-simplejpeg-crop (random resized crop of
S × S and flip), dali-raw, dali-decode, dali-crop. Samples have `jpg` and `cls`.

webdataset runs in N processes, each with its share of the shards, as the workers of torch's DataLoader do, but
without handing batches to another process, which here costs nothing. Pictures of one size are stacked to batches.
DALI runs N threads; its `.idx` beside a shard is used if it is there.

Prints one line of JSON: mode, jobs, samples, seconds (without starting), samples_per_second, cpu_seconds (user and
system, all processes), samples_per_cpu_second, peak_mib (largest process). The first epoch warms up and does not count, if there are several.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import time


def crop_of(height, width, rng):
    """torchvision's RandomResizedCrop: left, top, width, height."""
    for _ in range(10):
        area = height * width * rng.uniform(0.08, 1.0)
        ratio = 2.0 ** rng.uniform(-0.415, 0.415)
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, width - w), rng.randint(0, height - h), w, h
    return 0, 0, width, height


def decoder(mode, side):
    """A function from JPEG bytes to an array."""
    import io

    import numpy

    rng = random.Random(7)
    if mode == "wds-raw":
        return lambda data: data
    if "simplejpeg" in mode:
        import simplejpeg

        decode = lambda data: simplejpeg.decode_jpeg(data, "RGB")
        if mode.endswith("-crop"):
            import cv2

            cv2.setNumThreads(1)

            def crop(data):
                array = decode(data)
                left, top, w, h = crop_of(*array.shape[:2], rng)
                array = cv2.resize(array[top : top + h, left : left + w], (side, side), interpolation=cv2.INTER_LINEAR)
                return array[:, ::-1] if rng.random() < 0.5 else array

            return crop
        return decode
    from PIL import Image

    if mode == "wds-pil":
        return lambda data: numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    def crop(data):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        left, top, w, h = crop_of(image.height, image.width, rng)
        image = image.crop((left, top, left + w, top + h)).resize((side, side), Image.Resampling.BILINEAR)
        if rng.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return numpy.asarray(image)

    return crop


def webdataset_worker(mode, shards, batch, side, epochs, ready, report):
    import numpy
    import webdataset as wds

    decode = decoder(mode, side)
    for _ in range(epochs):
        ready.wait()
        samples = 0
        pictures, labels = [], []

        def flush():
            if pictures and not isinstance(pictures[0], bytes) and all(p.shape == pictures[0].shape for p in pictures):
                numpy.stack(pictures)
            numpy.asarray(labels)
            pictures.clear()
            labels.clear()

        # A worker without shards only keeps time.
        dataset = wds.WebDataset(shards, shardshuffle=False, empty_check=False) if shards else []
        for sample in dataset:
            pictures.append(decode(sample["jpg"]))
            labels.append(int(sample["cls"]))
            samples += 1
            if len(pictures) == batch:
                flush()
        flush()
        report.put(samples)
        ready.wait()


def run_webdataset(args):
    # Processes start together, and each epoch is timed from outside.
    context = multiprocessing.get_context("spawn")
    ready, report = context.Barrier(args.jobs + 1), context.Queue()
    shares = [args.shards[i :: args.jobs] for i in range(args.jobs)]
    work = [
        context.Process(
            target=webdataset_worker, args=(args.mode, share, args.batch, args.side, args.epochs, ready, report)
        )
        for share in shares
    ]
    for process in work:
        process.start()
    for epoch in range(args.epochs):
        ready.wait()
        began, used = time.perf_counter(), cpu([p.pid for p in work])
        samples = sum(report.get() for _ in work)
        seconds, cpu_seconds = time.perf_counter() - began, cpu([p.pid for p in work]) - used
        ready.wait()
    for process in work:
        process.join()
    return samples, seconds, cpu_seconds


def cpu(pids):
    """User and system seconds of processes that are running."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def run_dali(args):
    from nvidia.dali import fn, pipeline_def, types

    indices = [shard.removesuffix(".tar") + ".idx" for shard in args.shards]
    indices = indices if all(map(os.path.exists, indices)) else []

    @pipeline_def(batch_size=args.batch, num_threads=args.jobs, device_id=None)
    def pipeline():
        jpg, cls = fn.readers.webdataset(
            paths=args.shards, index_paths=indices, ext=["jpg", "cls"], missing_component_behavior="error", name="reader"
        )
        if args.mode == "dali-decode":
            jpg = fn.decoders.image(jpg, device="cpu", output_type=types.RGB)
        if args.mode == "dali-crop":
            jpg = fn.decoders.image_random_crop(
                jpg, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
            )
            jpg = fn.resize(jpg, size=[args.side, args.side], interp_type=types.INTERP_LINEAR, antialias=True)
            jpg = fn.flip(jpg, horizontal=fn.random.coin_flip(probability=0.5))
        return jpg, cls

    built = pipeline()
    built.build()
    samples = next(iter(built.reader_meta().values()))["epoch_size"] if built.reader_meta() else 0
    batches = samples // args.batch
    for _ in range(args.epochs):
        began, used = time.perf_counter(), time.process_time()
        for _ in range(batches):
            built.run()
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - used
    return batches * args.batch, seconds, cpu_seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("shards", nargs="+")
    args = parser.parse_args()
    samples, seconds, cpu_seconds = run_dali(args) if args.mode.startswith("dali-") else run_webdataset(args)
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    line = {
        "mode": args.mode,
        "jobs": args.jobs,
        "samples": samples,
        "seconds": round(seconds, 3),
        "samples_per_second": round(samples / seconds),
        "cpu_seconds": round(cpu_seconds, 3),
        "samples_per_cpu_second": round(samples / max(cpu_seconds, 0.001)),
        "peak_mib": max(peaks) // 1024,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
