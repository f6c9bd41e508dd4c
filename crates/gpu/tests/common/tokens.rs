//! Compares rows of tokens with a plain loop.

use super::{BLANK, Bench, Random, Runner, numbers};
use packhorse_gpu::kernels::{Documents, Element, TokenInputs, TokenOutputs, TokenRows};

/// Random rows, with their properties.
struct Case {
    request: TokenRows,
    rows: u32,
    tokens: Vec<i64>,
    mask: Vec<u8>,
    /// Whether a document begins at each token, row by row.
    begins: Vec<bool>,
}

const END: i64 = 3;

impl Case {
    fn new(random: &mut Random) -> Self {
        let most = random.pick(&[5, 67, 700, 5_000]);
        let (rows, length) = (random.between(1, 9), random.between(1, most));
        let (token, output) = random.pick(&[
            (Element::U16, Element::I32),
            (Element::U16, Element::I64),
            (Element::I32, Element::I32),
            (Element::I32, Element::I64),
            (Element::I64, Element::I64),
        ]);
        let documents =
            random.pick(&[Documents::Whole, Documents::After(END), Documents::Segments, Documents::Cumulative]);
        let extra_token = !random.chance(3);
        let request = TokenRows { token, length, extra_token, output, documents, ignore: -100 };
        let width = (length + u32::from(extra_token)) as usize;
        let one_in = random.pick(&[2, 10, 300]);
        let id = |random: &mut Random| match token {
            Element::U16 => random.below(1 << 16) as i64,
            Element::I32 => random.below(1 << 32) as i32 as i64,
            _ => random.u64() as i64,
        };
        let tokens: Vec<i64> =
            (0..rows as usize * width).map(|_| if random.chance(one_in) { END } else { id(random) }).collect();
        let begins = (0..rows as usize * length as usize).map(|k| {
            let (row, i) = (k / length as usize, k % length as usize);
            i == 0
                || match documents {
                    Documents::Whole => false,
                    Documents::After(end) => tokens[row * width + i - 1] == end,
                    Documents::Segments | Documents::Cumulative => random.chance(one_in),
                }
        });
        let begins = begins.collect();
        let mask = (0..rows * length).map(|_| random.pick(&[0, 1, 1, 9])).collect();
        Self { request, rows, tokens, mask, begins }
    }

    fn length(&self) -> usize {
        self.request.length as usize
    }

    /// Segment ids that mark the documents: each differs from the one before.
    fn segments(&self) -> Vec<i32> {
        let mut segment = 7;
        self.begins
            .iter()
            .map(|begins| {
                if *begins {
                    segment = -1 - segment
                };
                segment
            })
            .collect()
    }

    fn cumulative(&self) -> Vec<i32> {
        let begins = self.begins.iter().enumerate().filter(|(_, begins)| **begins);
        begins.map(|(at, _)| at as i32).chain([self.begins.len() as i32]).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        let width = self.request.token.width();
        self.tokens.iter().flat_map(|id| id.to_le_bytes().into_iter().take(width)).collect()
    }

    fn upload(&self, bench: &mut Bench<'_>, masked: bool) -> TokenInputs {
        let mut inputs = TokenInputs { tokens: bench.upload(&self.bytes()), ..TokenInputs::default() };
        if masked {
            inputs.mask = bench.upload(&self.mask);
        }
        match self.request.documents {
            Documents::Segments => inputs.segments = bench.numbers(&self.segments(), i32::to_le_bytes),
            Documents::Cumulative => {
                let cumulative = self.cumulative();
                inputs.cumulative = bench.numbers(&cumulative, i32::to_le_bytes);
                inputs.boundaries = cumulative.len() as u32;
            }
            Documents::Whole | Documents::After(_) => {}
        }
        inputs
    }

    /// The expected inputs, labels and positions, row by row.
    fn wanted(&self, masked: bool) -> [Vec<i64>; 3] {
        let width = self.length() + usize::from(self.request.extra_token);
        let mut wanted = [const { Vec::new() }; 3];
        for (row, tokens) in self.tokens.chunks(width).enumerate() {
            let mut begin = 0;
            for (i, token) in tokens.iter().take(self.length()).enumerate() {
                let k = row * self.length() + i;
                begin = if self.begins[k] { i } else { begin };
                let label = tokens.get(i + 1).filter(|_| !masked || self.mask[k] != 0);
                wanted[0].push(*token);
                wanted[1].push(label.copied().unwrap_or(self.request.ignore));
                wanted[2].push((i - begin) as i64);
            }
        }
        wanted
    }
}

/// All outputs, and any subset of them.
pub(crate) fn check(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for case in 0..cases {
        let made = Case::new(random);
        let (masked, request) = (random.chance(2), made.request);
        let mut bench = Bench::new(runner);
        let inputs = made.upload(&mut bench, masked);
        let bytes = request.output(made.rows).unwrap().bytes();
        let wanted = [true; 3].map(|_| !random.chance(4));
        let [first, second, third] = wanted.map(|wanted| if wanted { bench.reserve(bytes) } else { 0 });
        let mut outputs = TokenOutputs { inputs: first, labels: second, positions: third, ..TokenOutputs::default() };
        if request.documents != Documents::Cumulative && random.chance(2) {
            outputs.cumulative = bench.reserve(request.cumulative(made.rows).unwrap().bytes());
            outputs.entries = if random.chance(2) { bench.reserve(4) } else { 0 };
        }
        let scratch = bench.reserve(request.scratch(made.rows).unwrap());
        bench.run(&request.launch(&inputs, &outputs, scratch, made.rows).unwrap());
        let wide = |bytes: &[u8]| match request.output {
            Element::I32 => numbers(bytes, |number| i64::from(i32::from_le_bytes(number))),
            _ => numbers(bytes, i64::from_le_bytes),
        };
        for ((address, wanted), name) in
            [first, second, third].iter().zip(made.wanted(masked)).zip(["inputs", "labels", "positions"])
        {
            if *address != 0 {
                assert!(wide(&bench.download(*address)) == wanted, "case {case}: {name} of {request:?}");
            }
        }
        if outputs.cumulative != 0 {
            check_cumulative(&mut bench, &made, &outputs);
        }
        bench.finish();
    }
}

fn check_cumulative(bench: &mut Bench<'_>, made: &Case, outputs: &TokenOutputs) {
    let (found, wanted) = (bench.download(outputs.cumulative), made.cumulative());
    let (found, rest) = found.split_at(4 * wanted.len());
    assert_eq!(numbers(found, i32::from_le_bytes), wanted, "{:?}", made.request);
    assert!(rest.iter().all(|byte| *byte == BLANK), "more than the entries was written");
    if outputs.entries != 0 {
        assert_eq!(numbers(&bench.download(outputs.entries), i32::from_le_bytes), [wanted.len() as i32]);
    }
}
