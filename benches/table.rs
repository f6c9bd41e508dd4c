//! The table of results: `cargo bench --bench table` prints it from `target/bench.json`, where the other benches leave theirs.
//!
//! `cargo bench --bench table -- write` puts it into docs/performance.md and README.md, with the results as docs/performance.json.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

use packhorse_testkit::trials::{Results, fill, results_file, table};
use std::path::Path;

fn main() {
    let file = results_file();
    let Some(results) = Results::read(&file) else {
        return println!("{} has no results: run other benches first", file.display());
    };
    println!("{}\n\n{}", results.machine(), table(&results, &[]));
    if std::env::args().any(|arg| arg == "write") {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        std::fs::copy(&file, root.join("docs/performance.json")).expect("the results are kept");
        for page in ["README.md", "docs/performance.md"] {
            let text = std::fs::read_to_string(root.join(page)).expect("a page");
            std::fs::write(root.join(page), fill(&text, &results)).expect("the page is written");
        }
    }
}
