//! To be filled in below.
fn main() {}
