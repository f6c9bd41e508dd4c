//! Checks the ring under every schedule with a bounded number of preemptions: two if one thread sends and consumes, one
//! if two threads do. Each of several planted mistakes must be found.
#![expect(clippy::panic, reason = "a panic fails the test")]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread;
    pub(crate) use std::sync::PoisonError;
}
#[path = "../src/driver.rs"]
mod driver;
#[path = "../src/ring.rs"]
#[expect(dead_code, reason = "the models use a part of it")]
mod ring;
#[path = "model/world.rs"]
mod world;

use world::{Plant, run, run_alone};

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn nothing_is_lost_or_overwritten_by_one_thread() {
    check(2, || run_alone(Plant::None, 2, 2, 0));
}

#[test]
fn nothing_is_lost_or_overwritten_with_a_stream_of_transforms() {
    check(1, || run_alone(Plant::None, 3, 2, 0));
}

#[test]
fn nothing_is_lost_or_overwritten_by_two_threads() {
    check(1, || run(Plant::None, 2, 2));
}

#[test]
fn each_planted_mistake_is_found() {
    for plant in Plant::ALL {
        let streams = if plant == Plant::TransformsDoNotWait { 3 } else { 2 };
        let found = std::thread::spawn(move || check(2, move || run_alone(plant, streams, 3, 0))).join();
        assert!(found.is_err(), "loom does not find {plant:?}");
    }
}
