//! Times kernels on the first GPU against the physical limit, a copy in its memory of as many bytes, in the same run:
//! `cargo bench -p packhorse-gpu --bench kernels [-- ROWS]` (256 by default).
//!
//! The bytes of a kernel are its input, read once, and its output, written once. A time is the median of nine, each between two events
//! around twenty runs. Prints a line of JSON per kernel; without a GPU, why there is none.

#![expect(
    unsafe_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench uses memory of the GPU, prints, and ends where it can't go on"
)]

use cudarc::driver::{result, sys};
use packhorse_gpu::kernels::*;
use packhorse_gpu::{Cuda, DeviceMemory, Gpu, Stream};
use packhorse_read::Gather;
use std::cell::RefCell;

/// Height and width of pictures, and of those before a crop.
const SIDE: u32 = 224;
const WHOLE: u32 = 256;

fn main() {
    let rows = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(256);
    match Cuda::new(0) {
        Ok(gpu) => Machine::new(gpu).times(rows),
        Err(error) => println!("nothing was measured: {error}"),
    }
}

struct Machine {
    gpu: Cuda,
    stream: Stream,
    blocks: RefCell<Vec<DeviceMemory>>,
}

impl Machine {
    fn new(gpu: Cuda) -> Self {
        // SAFETY: the GPU exists, and its context is kept to the end of the process.
        unsafe { result::ctx::set_current(result::primary_ctx::retain(0).unwrap()) }.unwrap();
        Self { stream: gpu.stream().unwrap(), gpu, blocks: RefCell::default() }
    }

    fn times(&self, rows: u32) {
        self.warm();
        self.pictures(rows);
        self.colors(rows);
        self.sizes(rows);
        self.others(rows);
    }

    /// Memory with these bytes.
    fn put(&self, bytes: &[u8]) -> u64 {
        let address = self.room(bytes.len());
        // SAFETY: the memory was just reserved for these bytes, and no kernel runs; the context is current.
        unsafe { result::memcpy_htod_sync(address, bytes) }.unwrap();
        address
    }

    fn numbers<const N: usize>(&self, numbers: impl Iterator<Item = [u8; N]>) -> u64 {
        self.put(&numbers.flatten().collect::<Vec<u8>>())
    }

    fn room(&self, bytes: usize) -> u64 {
        let memory = self.gpu.memory(bytes.next_multiple_of(256)).unwrap();
        let address = self.gpu.address(&memory);
        self.blocks.borrow_mut().push(memory);
        address
    }

    /// Microseconds that `queue` takes on the GPU.
    fn timed(&self, queue: impl Fn(&Stream)) -> f64 {
        const TIMES: u32 = 20;
        let timer = || self.gpu.timer().unwrap().unwrap();
        let (from, to) = (timer(), timer());
        let mut found: Vec<f64> = (0..10)
            .map(|_| {
                self.gpu.record(&from, &self.stream).unwrap();
                (0..TIMES).for_each(|_| queue(&self.stream));
                self.gpu.record(&to, &self.stream).unwrap();
                self.gpu.synchronize(&to).unwrap();
                self.gpu.elapsed(&from, &to).unwrap().as_secs_f64() * 1e6 / f64::from(TIMES)
            })
            .skip(1)
            .collect();
        found.sort_by(f64::total_cmp);
        found[found.len() / 2]
    }

    /// A copy in the GPU's memory that reads and writes `bytes` in all.
    fn copy(&self, bytes: usize) -> f64 {
        let (from, to, half) = (self.room(bytes / 2), self.room(bytes / 2), bytes / 2);
        self.timed(|stream| {
            let stream = self.gpu.handle(stream).unwrap() as sys::CUstream;
            // SAFETY: both blocks have so many bytes, and live longer than the stream's work.
            unsafe { result::memcpy_dtod_async(to, from, half, stream) }.unwrap();
        })
    }

    /// For as long as the clock of an idle GPU takes to rise.
    fn warm(&self) {
        for _ in 0..20 {
            self.copy(1 << 30);
        }
        self.clear();
    }

    /// Prints the time of launches that read and write `bytes` in all.
    fn line(&self, name: &str, rows: u32, bytes: usize, launches: &[Launch]) {
        let took = self.timed(|stream| {
            for launch in launches {
                // SAFETY: the memory of all arguments lives to the end of this function's caller, which waits.
                unsafe { self.gpu.launch(launch, stream) }.unwrap();
            }
        });
        let copy = self.copy(bytes);
        let (speed, of_copy) = (bytes as f64 / took / 1e6, 100.0 * copy / took);
        println!(
            "{{\"kernel\": \"{name}\", \"rows\": {rows}, \"us\": {took:.1}, \"tb_per_s\": {speed:.2}, \"of_copy\": {of_copy:.1}}}"
        );
    }

    fn clear(&self) {
        self.gpu.drain().unwrap();
        self.blocks.borrow_mut().clear();
    }

    /// Pictures of noise.
    fn pixels(&self, rows: u32, side: u32) -> u64 {
        let mut state = 1u64;
        let noise = (0..(rows * side * side * 3).div_ceil(8)).flat_map(|_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state ^ state >> 29).to_le_bytes()
        });
        self.put(&noise.collect::<Vec<u8>>())
    }

    fn keys(&self, rows: u32) -> u64 {
        self.numbers((0..u64::from(rows)).map(|row| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()))
    }

    fn pictures(&self, rows: u32) {
        let channels_last = Pixels { axes: Axes::Hwc, ..normalized(Element::Bf16) };
        let bytes_first = Pixels { axes: Axes::Chw, ..Pixels::BYTES };
        let outputs = [
            ("Image to bf16", normalized(Element::Bf16)),
            ("Image to f16", normalized(Element::F16)),
            ("Image to f32", normalized(Element::F32)),
            ("Image to bf16, channels last", channels_last),
            ("Image to bytes", bytes_first),
            ("Image to bytes, channels last", Pixels::BYTES),
        ];
        for (name, output) in outputs {
            self.image(name, Image::new((SIDE, SIDE), 3, output), rows);
        }
        let whole = Image::new((WHOLE, WHOLE), 3, normalized(Element::Bf16));
        let place = CropPosition::Drawn;
        self.image("random crop to bf16", Image { crop: (SIDE, SIDE), place, flip: Flip::Drawn(0.5), ..whole }, rows);
    }

    fn image(&self, name: &str, image: Image, rows: u32) {
        let (input, output) = (self.pixels(rows, image.size.0), image.output(rows).unwrap());
        let picks = Picks { keys: self.keys(rows), ..Picks::default() };
        let launch = image.launch(input, &picks, self.room(output.bytes()), rows).unwrap();
        self.line(name, rows, (rows * SIDE * SIDE * 3) as usize + output.bytes(), &[launch]);
        self.clear();
    }

    fn colors(&self, rows: u32) {
        let image = Image::new((SIDE, SIDE), 3, normalized(Element::Bf16));
        let jitter = Jitter { probability: 0.8, ..Jitter::new(0.4, 0.4, 0.2, 0.1) };
        let plain = Augment::new(image);
        let usual = Augment { jitter, grayscale: 0.2, ..plain };
        let mix = Mix { probability: 1.0, mixup: 0.2, cutmix: 1.0 };
        let turned = Augment { rotate: Rotate { probability: 1.0, degrees: (-15.0, 15.0) }, ..plain };
        let blur = Blur { probability: 0.5, kernel: 23, sigma: (0.1, 2.0) };
        let all = [
            ("Augment to bf16, colours", usual),
            ("Augment to bf16, colours, mixed", Augment { mix, ..usual }),
            ("Augment to bf16, turned", turned),
            ("Augment to bf16, half blurred", Augment { blur, ..plain }),
        ];
        for (name, augment) in all {
            let (input, output) = (self.pixels(rows, SIDE), augment.output(rows).unwrap());
            let (keys, scratch) = (self.keys(rows), self.room(augment.scratch(rows)));
            let launches = augment.launches(input, keys, self.room(output.bytes()), scratch, (rows, None)).unwrap();
            self.line(name, rows, (rows * SIDE * SIDE * 3) as usize + output.bytes(), &launches);
            self.clear();
        }
    }

    /// Pictures of 256 pixels as if each had a size of its own.
    fn sizes(&self, rows: u32) {
        let each = u64::from(WHOLE * WHOLE * 3);
        let bytes = u64::from(rows) * each;
        let crops = [
            ("Resize 256 to 224, whole", Crop::Squash),
            ("Resize 256 to 224, random crop", Crop::Random { scale: (0.08, 1.0), ratio: (0.75, 4.0 / 3.0) }),
        ];
        for (name, crop) in crops {
            let resize = Resize {
                channels: 3,
                size: (SIDE, SIDE),
                crop,
                flip: Flip::Drawn(0.5),
                output: normalized(Element::Bf16),
            };
            let from = RaggedPictures {
                values: self.pixels(rows, WHOLE),
                bytes,
                offsets: self.numbers((0..=u64::from(rows)).map(|row| (row * each).to_le_bytes())),
                shapes: self.numbers((0..rows).flat_map(|_| [WHOLE, WHOLE, 3]).map(u32::to_le_bytes)),
            };
            let picks = Picks { keys: self.keys(rows), ..Picks::default() };
            let (output, scratch) = (resize.output(rows).unwrap(), self.room(resize.scratch(rows).unwrap()));
            let launches = resize.launch(&from, &picks, self.room(output.bytes()), scratch, rows).unwrap();
            self.line(name, rows, bytes as usize + output.bytes(), &launches);
            self.clear();
        }
    }

    fn others(&self, rows: u32) {
        let each = u64::from(SIDE * SIDE * 3);
        let total = u64::from(rows) * each;
        // A resident batch: as many pieces as rows, each of one picture.
        let (held, slab) = (self.pixels(rows, SIDE), self.room(total as usize));
        let pieces = (0..u64::from(rows)).flat_map(|row| [held + row * each, row * each, each]);
        let gathered = Gathered { pieces: self.numbers(pieces.map(u64::to_le_bytes)), data: slab };
        let gather = Gather { pieces: rows, longest: each, bytes: total as usize, ..Gather::default() };
        self.line("Gathered", rows, 2 * total as usize, &[gathered.launch(&gather).unwrap()]);

        let bits = Bits::new(each, Element::F32);
        let output = self.room(4 * total as usize);
        self.line(
            "Bits to f32",
            rows,
            total as usize / 8 + 4 * total as usize,
            &[bits.launch(held, output, rows).unwrap()],
        );

        // Rows between nothing and all of the length.
        let starts: Vec<u64> =
            (0..=u64::from(rows)).map(|row| row * (row + 1) / 2 * (each / u64::from(rows))).collect();
        let entries = starts.last().copied().unwrap_or_default();
        let from = RaggedValues {
            values: held,
            entries,
            offsets: self.numbers(starts.iter().map(|start| start.to_le_bytes())),
        };
        let pad = Pad::new(1, each);
        self.line("Padded bytes", rows, (entries + total) as usize, &[pad.launch(&from, slab, 0, rows).unwrap()]);

        let tokens = TokenRows::new(Element::U16, 8192);
        let out = self.room(tokens.output(rows).unwrap().bytes());
        let labels = self.room(tokens.output(rows).unwrap().bytes());
        let (from, to) = (
            TokenInputs { tokens: held, ..TokenInputs::default() },
            TokenOutputs { inputs: out, labels, ..TokenOutputs::default() },
        );
        let count = rows as usize * 8192;
        self.line("tokens to i64 inputs and labels", rows, 18 * count, &tokens.launch(&from, &to, 0, rows).unwrap());
        self.clear();
    }
}

fn normalized(element: Element) -> Pixels {
    Pixels::normalized(element, Normalize::IMAGENET)
}
