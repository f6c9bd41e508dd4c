//! Checks the ring under many random schedules. Each of several planted mistakes must be found.
#![expect(clippy::panic, reason = "a panic fails the test")]

mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread;
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

const SCHEDULES: usize = 500;

#[test]
fn nothing_is_lost_or_overwritten() {
    for streams in [2, 3] {
        shuttle::check_random(move || run(Plant::None, streams, 6), SCHEDULES);
        shuttle::check_pct(move || run(Plant::None, streams, 6), SCHEDULES, 3);
        for kept in 0..3 {
            shuttle::check_random(move || run_alone(Plant::None, streams, 6, kept), SCHEDULES);
        }
    }
}

#[test]
fn each_planted_mistake_is_found() {
    for plant in Plant::ALL {
        let found = std::thread::spawn(move || {
            shuttle::check_random(move || run(plant, 3, 6), SCHEDULES);
            shuttle::check_pct(move || run_alone(plant, 3, 6, 1), SCHEDULES, 3);
        });
        assert!(found.join().is_err(), "shuttle does not find {plant:?}");
    }
}
