//! Compares checksums with those of the host.

use super::{Bench, Random, Runner, numbers};
use packhorse_gpu::kernels::{Checksum, checksum};

/// Rows of any length, at any address.
pub(crate) fn check(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for case in 0..cases {
        // One, two or three passes.
        let bytes = random.between(0, [40, 3_000, 30_000, 600_000][case % 4]) as usize;
        let rows = if case % 4 == 3 { random.between(1, 2) } else { random.between(1, 9) };
        let data = random.bytes(bytes * rows as usize);
        let mut bench = Bench::new(runner);
        let input = bench.upload_at(random.pick(&[0, 0, 1, 7, 8]), &data);
        let sums = Checksum { bytes: bytes as u64 };
        let (output, scratch) = (bench.reserve(8 * rows as usize), bench.reserve(sums.scratch(rows).unwrap()));
        bench.run(&sums.launch(input, output, scratch, rows).unwrap());
        let found = numbers(&bench.download(output), u64::from_le_bytes);
        bench.finish();
        let row = |row| &data[row * bytes..(row + 1) * bytes];
        let wanted: Vec<u64> = (0..rows as usize).map(|at| checksum(row(at))).collect();
        assert_eq!(found, wanted, "{rows} rows of {bytes} bytes");
    }
}
