//! Compares the sums of a fixed amount of work with those of the host.

use super::{Bench, Random, Runner, numbers};
use packhorse_gpu::kernels::Exercise;

const COUNT: usize = Exercise::SUMS / 4;

/// Every read counts, also past the end of the data.
pub(crate) fn check(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for _ in 0..cases {
        let count = 1usize << random.between(0, 12);
        let data: Vec<[f32; 4]> =
            (0..count).map(|_| [0; 4].map(|_: u8| random.between(0, 2000) as f32 - 1000.0)).collect();
        let work = Exercise { reads: random.between(0, 3 * COUNT as u32).into(), sweeps: random.between(1, 5) };
        let mut bench = Bench::new(runner);
        let bytes: Vec<u8> = data.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        let (input, output) = (bench.upload(&bytes), bench.reserve(Exercise::SUMS));
        bench.run(&[work.launch(input, bytes.len() as u64, output).unwrap()]);
        let found = numbers(&bench.download(output), f32::from_le_bytes);
        bench.finish();
        let wrong = (0..COUNT).find(|at| found.get(*at) != Some(&sum(&data, work, *at)));
        assert!(wrong.is_none() && found.len() == COUNT, "{work:?} on {count} values: sum {wrong:?}");
    }
}

fn sum(data: &[[f32; 4]], work: Exercise, number: usize) -> f32 {
    let mut sums = [0f32; 4];
    for at in (number..work.reads as usize).step_by(COUNT) {
        for _ in 0..work.sweeps {
            sums = [0, 1, 2, 3].map(|i: usize| sums[i].mul_add(0.5, data[at % data.len()][i]));
        }
    }
    let [a, b, c, d] = sums;
    a + b + c + d
}
