use super::super::super::samples::{jpeg, jpeg_of, pattern};
use super::*;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

/// Images of every structure that the encoder writes.
fn pictures() -> Vec<Vec<u8>> {
    let mut all = vec![
        jpeg(1, 1),
        jpeg(64, 48),
        jpeg_of(50, 33, ColorType::Luma, 6, b""),
        jpeg_of(40, 40, ColorType::Cmyk, 0, b""),
    ];
    for progressive in [false, true] {
        for sampling in
            [SamplingFactor::R_4_4_4, SamplingFactor::R_4_2_0, SamplingFactor::R_4_2_2, SamplingFactor::R_4_1_1]
        {
            for restart in [0, 3] {
                let mut bytes = Vec::new();
                let mut encoder = Encoder::new(&mut bytes, 90);
                encoder.set_progressive(progressive);
                encoder.set_sampling_factor(sampling);
                encoder.set_optimized_huffman_tables(restart == 0);
                if restart > 0 {
                    encoder.set_restart_interval(restart);
                }
                encoder.encode(&pattern(77, 51, 3), 77, 51, ColorType::Rgb).unwrap();
                all.push(bytes);
            }
        }
    }
    all
}

fn start_of_scan(bytes: &[u8]) -> usize {
    bytes.windows(2).position(|two| two == [0xff, SOS]).unwrap() + 14
}

#[test]
fn complete_images_pass_with_trailing_bytes() {
    for mut bytes in pictures() {
        verify(&bytes).unwrap();
        bytes.extend(b"\0\xff\xd8 more");
        verify(&bytes).unwrap();
    }
}

#[test]
fn truncation_behind_a_new_end_marker_is_refused() {
    for whole in pictures() {
        // The last bits before EOI may be padding only.
        for cut in start_of_scan(&whole)..whole.len() - 4 {
            let bytes = [&whole[..cut], b"\xff\xd9"].concat();
            assert!(verify(&bytes).is_err(), "{cut} of {}", whole.len());
        }
    }
}

#[test]
fn a_missing_repeated_or_wrong_restart_is_refused() {
    for whole in pictures() {
        let restarts =
            whole.windows(2).enumerate().filter(|(_, two)| two[0] == 0xff && (0xd0..=0xd7).contains(&two[1]));
        for (at, marker) in restarts {
            assert!(verify(&[&whole[..at], &whole[at + 2..]].concat()).is_err());
            assert!(verify(&[&whole[..at], marker, &whole[at..]].concat()).is_err());
            let mut other = whole.clone();
            other[at + 1] = 0xd0 + (marker[1] - 0xd0 + 1) % 8;
            assert!(verify(&other).is_err());
        }
    }
}

#[test]
fn bytes_between_a_scan_and_its_end_are_refused() {
    for whole in pictures() {
        let (body, end) = whole.split_at(whole.len() - 2);
        assert!(verify(&[body, b"\0", end].concat()).is_err());
        assert!(verify(&[body, b"\xff", end].concat()).is_ok(), "fill bytes may stand before a marker");
    }
}

#[test]
fn a_missing_or_repeated_scan_is_refused() {
    for whole in pictures() {
        let scans: Vec<usize> =
            whole.windows(2).enumerate().filter(|(_, two)| *two == [0xff, SOS]).map(|(at, _)| at).collect();
        for pair in scans.windows(2) {
            assert!(verify(&[&whole[..pair[0]], &whole[pair[1]..]].concat()).is_err());
            assert!(verify(&[&whole[..pair[1]], &whole[pair[0]..]].concat()).is_err());
        }
    }
}

#[test]
fn damage_never_panics() {
    for whole in pictures() {
        for end in 0..whole.len() {
            assert!(verify(&whole[..end]).is_err());
        }
        for bit in (0..8 * whole.len()).step_by(3) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = verify(&bytes);
        }
    }
}
