//! Kernels against references, without a device: their sources run on the host, over the very launches.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what goes wrong here fails the test, or is skipped with a word"
)]

mod common;

use common::host::{Change, Host};
use common::{Random, Runner, checksum, image, ragged, resize, synthetic, tokens};
use packhorse_gpu::kernels::{Module, Spin};

/// Runs a check on the host, if it can compile kernels.
fn on_host(check: impl FnOnce(&mut dyn Runner, &mut Random)) {
    if let Some(mut host) = Host::new() {
        check(&mut host, &mut Random::fresh());
    }
}

#[test]
fn pictures_of_one_size() {
    on_host(|runner, random| image::check(runner, random, 400));
}

#[test]
fn pictures_of_any_size() {
    on_host(|runner, random| resize::check(runner, random, 150));
}

#[test]
fn bits() {
    on_host(|runner, random| ragged::check_bits(runner, random, 2000));
}

#[test]
fn ragged_rows() {
    on_host(|runner, random| ragged::check_pad(runner, random, 400));
}

#[test]
fn pictures_out_of_nothing() {
    on_host(|runner, random| synthetic::check_pictures(runner, random, 150));
}

#[test]
fn tokens_out_of_nothing() {
    on_host(|runner, random| synthetic::check_tokens(runner, random, 200));
}

#[test]
fn rows_of_tokens() {
    on_host(|runner, random| tokens::check(runner, random, 300));
}

#[test]
fn checksums() {
    on_host(|runner, random| checksum::check(runner, random, 60));
}

#[test]
fn time_passes() {
    on_host(|runner, _| runner.launch(&Spin::new(1_000_000).launch().unwrap()));
}

/// Faults that the checks must find.
const FAULTS: [(Change<'_>, Check); 8] = [
    ((Module::Image, "common.flip ? back : ahead", "common.flip ? ahead : ahead"), image::check),
    ((Module::Image, "common.flip ? last - 3 : x", "common.flip ? last - 2 : x"), image::check),
    ((Module::Image, "at(key, 0)", "at(key, 1)"), image::check),
    ((Module::Image, "count == 4 &&", ""), image::check),
    ((Module::Tokens, "i + 1 < p.width &&", ""), tokens::check),
    ((Module::Tokens, "found < 0 ? last : found", "found"), tokens::check),
    ((Module::Tokens, "<= place", "< place"), tokens::check),
    ((Module::Check, "i * 8 + k < p.bytes", "true"), checksum::check),
];

type Check = fn(&mut dyn Runner, &mut Random, usize);

#[test]
fn planted_faults_are_found() {
    for (change, check) in FAULTS {
        let Some(mut host) = Host::planted(change) else { return };
        let outcome = std::panic::catch_unwind(move || check(&mut host, &mut Random::fresh(), 400));
        assert!(outcome.is_err(), "not found: {} for {}", change.2, change.1);
    }
}
