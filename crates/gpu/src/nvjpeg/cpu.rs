//! Decodes the remaining pictures on the CPU.

use packhorse_core::{Error, Limits, Result};
use packhorse_transform::image::{Draws, View, ViewDecoder};
use std::thread;

/// Decoders, one per thread.
pub(super) struct Cpu {
    first: ViewDecoder,
    others: Vec<ViewDecoder>,
}

/// A picture to decode.
pub(super) struct Job<'j> {
    /// Its row, for errors.
    pub(super) row: usize,
    pub(super) bytes: &'j [u8],
    /// Three bytes per pixel.
    pub(super) out: &'j mut [u8],
}

impl Cpu {
    pub(super) fn new(threads: usize, limits: Limits) -> Result<Self> {
        let decoder = || ViewDecoder::new(View::default(), limits);
        Ok(Self { first: decoder()?, others: (1..threads).map(|_| decoder()).collect::<Result<_>>()? })
    }

    /// Height and width of a picture after its EXIF orientation.
    pub(super) fn size(&mut self, bytes: &[u8]) -> Result<(u32, u32)> {
        self.first.size(bytes)
    }

    /// Decodes all pictures; an error has the row of the first that fails.
    pub(super) fn decode(&mut self, mut jobs: Vec<Job<'_>>) -> Result<(), (usize, Error)> {
        let share = jobs.len().div_ceil(1 + self.others.len()).max(1);
        let mut shares = jobs.chunks_mut(share);
        let mine = shares.next().unwrap_or_default();
        let (first, others) = (&mut self.first, &mut self.others);
        thread::scope(|scope| {
            let others: Vec<_> =
                shares.zip(others).map(|(jobs, decoder)| scope.spawn(move || each(decoder, jobs))).collect();
            let outcome = each(first, mine);
            let died = |_| Err((0, Error::bug("a decoder panicked")));
            others.into_iter().map(|other| other.join().unwrap_or_else(died)).fold(outcome, Result::and)
        })
    }
}

fn each(decoder: &mut ViewDecoder, jobs: &mut [Job<'_>]) -> Result<(), (usize, Error)> {
    jobs.iter_mut().try_for_each(|Job { row, bytes, out }| {
        decoder.decode_into(bytes, Draws::default(), out).map(drop).map_err(|error| (*row, error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    fn picture(seed: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        let encoder = jpeg_encoder::Encoder::new(&mut bytes, 80);
        encoder.encode(&[seed; 3 * 8 * 8], 8, 8, jpeg_encoder::ColorType::Rgb).unwrap();
        bytes
    }

    #[test]
    fn any_number_of_threads_decodes_the_same_and_finds_the_first_error() {
        let mut pictures: Vec<Vec<u8>> = (0..10).map(|seed| picture(20 * seed)).collect();
        for broken in [false, true] {
            if broken {
                pictures[3].truncate(100);
                pictures[7].truncate(100);
            }
            for threads in [0, 1, 2, 3, 10, 30] {
                let mut cpu = Cpu::new(threads, Limits::default()).unwrap();
                let mut out = vec![0; 192 * pictures.len()];
                let jobs = pictures.iter().zip(out.chunks_mut(192)).enumerate();
                let outcome = cpu.decode(jobs.map(|(row, (bytes, out))| Job { row: 5 + row, bytes, out }).collect());
                match outcome {
                    Ok(()) => assert!(
                        !broken && out.chunks(192).enumerate().all(|(i, out)| out[0].abs_diff(20 * i as u8) < 3)
                    ),
                    Err((row, error)) => assert!(broken && row == 8 && error.kind() == Kind::Content, "{row} {error}"),
                }
            }
        }
        Cpu::new(4, Limits::default()).unwrap().decode(Vec::new()).map_err(|(_, error)| error).unwrap();
    }
}
