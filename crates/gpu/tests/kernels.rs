//! Compares kernels with references: their sources run on the host with the same launches, and with `PACKHORSE_GPU` on
//! a GPU too.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure here fails the test, or is skipped with a message"
)]

mod common;

use common::device::Device;
use common::host::{Change, Host};
use common::{Random, Runner, augment, checksum, exercise, image, ragged, resize, synthetic, tokens, views};
use packhorse_gpu::kernels::{Module, Spin};
use packhorse_testkit::cuda::FakeDriver;
use std::process::Command;

/// Runs a check on the host, if it can compile kernels, and on a GPU, if `PACKHORSE_GPU` is set.
fn on_all(check: impl Fn(&mut dyn Runner, &mut Random)) {
    if let Some(mut host) = Host::new() {
        check(&mut host, &mut Random::fresh());
    }
    if let Some(mut device) = Device::new() {
        check(&mut device, &mut Random::fresh());
        println!("ran on a GPU");
    }
}

/// Launches on a GPU take the same path: over a fake driver of threads.
#[test]
fn the_driver_launches_the_same() {
    let (Some(driver), Some(kernels)) = (FakeDriver::new(), common::compiled::libraries()) else { return };
    let mut command = Command::new(std::env::current_exe().unwrap());
    driver.drive(&mut command);
    command.env("PACKHORSE_GPU", "1").env("FAKE_CUDA_KERNELS", std::env::join_paths(kernels).unwrap());
    let output = command.args(["--exact", "ragged_rows", "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("ran on a GPU"), "{said}");
    assert!(driver.calls().of("cuLaunchKernel") > 100);
}

#[test]
fn pictures_of_one_size() {
    on_all(|runner, random| image::check(runner, random, 400));
}

#[test]
fn random_colors() {
    on_all(|runner, random| augment::check(runner, random, 300));
    on_all(|runner, random| augment::check_shares(runner, random, 1));
    on_all(|runner, random| augment::check_mixes(runner, random, 1));
}

#[test]
fn torchvision_makes_the_same_colors() {
    on_all(augment::check_torchvision);
}

#[test]
fn pictures_of_any_size() {
    on_all(|runner, random| resize::check(runner, random, 150));
}

#[test]
fn the_loader_makes_the_same_pictures() {
    on_all(|runner, random| views::check_loader(runner, random, 30));
}

#[test]
fn pillow_makes_the_same_pictures() {
    on_all(views::check_pillow);
}

#[test]
fn bits() {
    on_all(|runner, random| ragged::check_bits(runner, random, 2000));
}

#[test]
fn ragged_rows() {
    on_all(|runner, random| ragged::check_pad(runner, random, 400));
}

#[test]
fn pieces_of_memory() {
    on_all(|runner, random| ragged::check_gather(runner, random, 300));
}

#[test]
fn pictures_out_of_nothing() {
    on_all(|runner, random| synthetic::check_pictures(runner, random, 150));
}

#[test]
fn tokens_out_of_nothing() {
    on_all(|runner, random| synthetic::check_tokens(runner, random, 200));
}

#[test]
fn rows_of_tokens() {
    on_all(|runner, random| tokens::check(runner, random, 300));
}

#[test]
fn checksums() {
    on_all(|runner, random| checksum::check(runner, random, 60));
}

#[test]
fn fixed_work() {
    on_all(|runner, random| exercise::check(runner, random, 6));
}

#[test]
fn time_passes() {
    on_all(|runner, _| runner.launch(&Spin::new(1_000_000).launch().unwrap()));
}

type Check = fn(&mut dyn Runner, &mut Random, usize);

/// Faults that the checks must find: the check, the source text and its replacement.
const FAULTS: [(Check, Change<'_>); 61] = [
    (image::check, (Module::Image, "mirror(word);", "")),
    (image::check, (Module::Image, "0x0043", "0x0034")),
    (image::check, (Module::Image, "word[0] = word[3]", "word[0] = word[2]")),
    (image::check, (Module::Image, "x -= (width + 3) & ~3u", "x -= width")),
    (image::check, (Module::Image, "o.offset[c]", "o.offset[0]")),
    (image::check, (Module::Image, "p.out.width - 4 - at.x", "p.out.width - 3 - at.x")),
    (image::check, (Module::Image, "p.out.width - 8 - x", "x")),
    (image::check, (Module::Image, "N - 3 - four + i", "four + i")),
    (image::check, (Module::Image, "b = a + 3", "b = a")),
    (image::check, (Module::Image, "6 * i + c", "6 * i")),
    (image::check, (Module::Image, "0x7410", "0x7401")),
    (image::check, (Module::Image, "word[2 * c + i]", "word[2 * c]")),
    (image::check, (Module::Image, "at(key, 0)", "at(key, 1)")),
    (image::check, (Module::Image, "2 * (u64)row + 1", "2 * (u64)row")),
    (resize::check, (Module::Resize, "wide += weight(across, j)", "wide += weight(across, 0)")),
    (resize::check, (Module::Resize, "heavy * wide", "heavy")),
    (resize::check, (Module::Resize, "i < taps.count ?", "i < 9 ?")),
    (resize::check, (Module::Resize, "high > to ? to : (u32)high", "high > to ? to - 1 : (u32)high")),
    (resize::check, (Module::Resize, "(i + 0.5) * covered", "i * covered")),
    (resize::check, (Module::Resize, "width - 1 - at : at", "width - 1 - at : 0")),
    (resize::check, (Module::Resize, "covered < 1.0 ? 1.0 : covered", "1.0")),
    (resize::check, (Module::Resize, "p.part == 1", "p.part == 3")),
    (resize::check, (Module::Resize, "lane += 4", "lane += 5")),
    (resize::check, (Module::Resize, "(width - w) / 2, (height - h) / 2", "0, 0")),
    (ragged::check_bits, (Module::Ragged, "group % 2 * 4", "0")),
    (ragged::check_pad, (Module::Ragged, "stop - start < p.most ? stop - start : p.most", "stop - start")),
    (ragged::check_pad, (Module::Ragged, "k % 8 * 8", "0")),
    (ragged::check_pad, (Module::Ragged, "at >= held && at", "at + 15 >= held && at")),
    (ragged::check_gather, (Module::Ragged, "high << (64 - 8 * skew)", "high << (56 - 8 * skew)")),
    (ragged::check_gather, (Module::Ragged, "at < to ? to : at", "at")),
    (augment::check, (Module::Augment, "left >> k & 15", "left >> (k ^ 4) & 15")),
    (augment::check, (Module::Augment, "b - r : r - g", "b - r : g - r")),
    (augment::check, (Module::Augment, "CONTRAST && before", "CONTRAST && false")),
    (augment::check, (Module::Augment, "(u32)part, PARTS", "(u32)part, PARTS + 1")),
    (augment::check, (Module::Augment, "i < plan.right", "i <= plan.right")),
    (augment::check, (Module::Augment, "area / ratio", "area * ratio")),
    (augment::check, (Module::Augment, "row > 0 ? row - 1 : rows - 1", "row > 0 ? row - 1 : 0")),
    (augment::check, (Module::Augment, "0.5 * sqrt(1.0 - own)", "0.5 * sqrt(own)")),
    (augment::check, (Module::Augment, "in ? b : a", "a")),
    (augment::check, (Module::Augment, "b ? none : second", "a ? none : second")),
    (augment::check, (Module::Augment, "colors(p, plan, at, next)", "colors(p, p.plans[row], at, next)")),
    (augment::check, (Module::Augment, "right * plan.sine + below", "right * plan.sine - below")),
    (augment::check, (Module::Augment, "at_x < width)", "at_x < width - 1)")),
    (augment::check, (Module::Augment, "width - 1 - at_x : at_x", "at_x : at_x")),
    (augment::check, (Module::Augment, "(i64)(height - 1) << 30", "(i64)height << 30")),
    (augment::check, (Module::Augment, "2 * (length - 1) - before", "2 * length - 1 - before")),
    (augment::check, (Module::Augment, "all += 2.0 * exp", "all += exp")),
    (augment::check, (Module::Augment, "of[3 + place", "of[2 + place")),
    (augment::check, (Module::Augment, "group + inside : group", "group : group")),
    (augment::check, (Module::Augment, "from + i, o.height", "from, o.height")),
    (augment::check, (Module::Augment, "passed(o, of)", "passed(o, row)")),
    (augment::check, (Module::Augment, "own == (i64)c ? share", "own == (i64)c ? plan.own")),
    (augment::check_mixes, (Module::Augment, "* log(2.0 * alpha / (alpha + w))", "* log(alpha / (alpha + w))")),
    (augment::check, (Module::Augment, "gray_of(value[k]), factor", "plan.mean, factor")),
    (synthetic::check_pictures, (Module::Synthetic, "gy / dot * 5 + gx / dot", "gx / dot * 5 + gy / dot")),
    (synthetic::check_tokens, (Module::Synthetic, "below(mix(number), p.every)", "below(number, p.every)")),
    (tokens::check, (Module::Tokens, "!p.mask || p.mask[k]", "!p.mask || p.mask[0]")),
    (tokens::check, (Module::Tokens, "found < 0 ? last : found", "found")),
    (tokens::check, (Module::Tokens, "<= place", "< place")),
    (checksum::check, (Module::Check, "<< (8 * k)", "<< (7 * k)")),
    (|runner, random, _| exercise::check(runner, random, 6), (Module::Check, "i & p.last", "i & (p.last >> 1)")),
];

#[test]
fn planted_faults_are_found() {
    for (check, change) in FAULTS {
        let Some(mut host) = Host::planted(change) else { return };
        let outcome = std::panic::catch_unwind(move || check(&mut host, &mut Random::fresh(), 400));
        assert!(outcome.is_err(), "not found: {} for {}", change.2, change.1);
    }
}
