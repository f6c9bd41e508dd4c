#![allow(missing_docs)]
fn main() {
    let n = 15_000_000usize;
    for _ in 0..3 {
        let mut a: Vec<i32> = (0..n as i32).collect();
        let mut r = packhorse_order::RandomState::new(1);
        let t = std::time::Instant::now();
        let mut x = 0u32;
        for _ in 0..n {
            x ^= r.next_u32();
        }
        let t1 = t.elapsed();
        let t = std::time::Instant::now();
        packhorse_order::shuffle(&mut a, &mut r);
        println!("{x} rng {t1:?} shuffle {:?}", t.elapsed());
    }
}
