//! Megabytes a second on one core: JSON lines (plain, with escapes, compressed) and plain text, next to an upper bound:
//! counting line feeds, or only decompressing. `cargo bench -p packhorse-text`; with `PACKHORSE_TEST_DATA` also over
//! real text.
#![expect(clippy::unwrap_used, reason = "an error ends the bench")]
#![expect(clippy::print_stdout, reason = "results")]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

use packhorse_core::{Format, Input, Limits, MemoryInput, Options};
use packhorse_storage::{Compression, decompressed};
use packhorse_text::Text;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

const REPEATS: usize = 4;
const SIZE: usize = 64 << 20;

fn main() {
    println!("{:28} {:>9} {:>9} {:>9} {:>7}", "", "documents", "limit", "ours MB/s", "share");
    let prose = repeat("the quick brown fox jumps over a lazy dog while it rains ", 4000);
    let code = repeat("    if (a[i] == \\\"x\\\") {\\n\\treturn value;\\n", 4000);
    let greek = repeat("η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί ", 4000);
    let escaped =
        repeat("\\u03b7 \\u03b3\\u03c1\\u03ae\\u03b3\\u03bf\\u03c1\\u03b7 \\u03ba\\u03b1\\u03c6\\u03ad ", 4000);
    for (name, text) in [("prose", &prose), ("code", &code), ("Greek", &greek), ("Greek, escaped", &escaped)] {
        let lines = repeat(&format!("{{\"id\": \"4711\", \"text\": \"{text}\", \"score\": 0.25}}\n"), SIZE);
        plain(&format!("JSON lines, {name}"), "a.jsonl", lines.as_bytes(), &[]);
    }
    let short = repeat("{\"text\": \"a short document of some words\", \"n\": 12, \"tags\": [\"a\", \"b\"]}\n", SIZE);
    plain("JSON lines, short", "a.jsonl", short.as_bytes(), &[]);
    let lines = repeat("the quick brown fox jumps over a lazy dog while it rains and rains and rains\n", SIZE);
    plain("text, document=line", "a.txt", lines.as_bytes(), &[("document", "line")]);
    plain(
        "text, document=paragraph",
        "a.txt",
        repeat(&format!("{}\n", &lines[..770]), SIZE).as_bytes(),
        &[("document", "paragraph")],
    );
    plain("text, document=file", "a.txt", lines.as_bytes(), &[("document", "file")]);
    let Some(data) = std::env::var_os("PACKHORSE_TEST_DATA") else { return };
    let packed = std::fs::read(Path::new(&data).join("text.jsonl.zst")).unwrap();
    let bytes = zstd::decode_all(&packed[..]).unwrap();
    plain("text.jsonl", "text.jsonl", &bytes, &[]);
    compressed("text.jsonl.zst", &packed, bytes.len());
}

fn repeat(piece: &str, size: usize) -> String {
    piece.repeat(size.div_ceil(piece.len()))
}

fn plain(what: &str, name: &str, bytes: &[u8], options: &[(&str, &str)]) {
    let input = MemoryInput::new(name, bytes.to_vec());
    let limit = best(|| memchr::memchr_iter(b'\n', bytes).count());
    report(what, bytes.len(), limit.1, best(|| documents(&input, options)));
}

fn compressed(name: &str, packed: &[u8], len: usize) {
    let (compression, _) = Compression::of(name.as_bytes()).unwrap();
    let input = decompressed(Box::new(MemoryInput::new(name, packed.to_vec())), compression);
    let mut buf = vec![0; 1 << 20];
    let limit = best(|| {
        let mut stream = input.stream().unwrap();
        std::iter::from_fn(|| Some(stream.read(&mut buf).unwrap()).filter(|n| *n > 0)).sum()
    });
    assert_eq!(limit.0, len);
    report(name, len, limit.1, best(|| documents(&*input, &[])));
}

fn documents(input: &dyn Input, options: &[(&str, &str)]) -> usize {
    let options: Options = options.iter().copied().collect();
    let source = Text.source(&options, Limits::default()).unwrap();
    source.open(Arc::new(input)).unwrap().rows(0..u64::MAX).unwrap().map(|rows| rows.unwrap().num_rows()).sum()
}

/// The count and the time of one run, in the best of several rounds.
fn best(mut run: impl FnMut() -> usize) -> (usize, Duration) {
    // The system's clock ticks a few hundred times a second.
    let long = Duration::from_millis(80);
    let mut round = || {
        let (start, mut runs, mut count) = (clock(), 0, 0);
        while runs == 0 || clock() - start < long {
            count = run();
            runs += 1;
        }
        ((clock() - start) / runs, count)
    };
    let (time, count) = (0..REPEATS).map(|_| round()).min().unwrap();
    (count, time)
}

/// The CPU time of this thread where the system reports it, so that other load does not matter; else wall time.
fn clock() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = said.and_then(|said| said.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

fn report(what: &str, bytes: usize, limit: Duration, (documents, ours): (usize, Duration)) {
    let speed = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    let share = 100.0 * limit.as_secs_f64() / ours.as_secs_f64();
    println!("{what:28} {documents:>9} {:>9.0} {:>9.0} {share:>6.0}%", speed(limit), speed(ours));
}
