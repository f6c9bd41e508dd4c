//! The ring under every order of its threads: loom tries all of them up to two preemptions, shuttle many at random.
//!
//! A world of four threads (`world.rs`): one that fills and sends batches, one that consumes them, and two streams of
//! a GPU. Every piece of memory knows who reads and writes it and fails when two do that at once, or when a kernel finds
//! another batch than its own. Each of several planted mistakes must be found.

#![expect(clippy::panic, reason = "what goes wrong fails the test")]

mod with_loom;
mod with_shuttle;
