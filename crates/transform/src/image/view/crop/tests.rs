use super::*;
use proptest::prelude::*;

const IMAGENET: Size = Size::Random { height: 224, width: 224, scale: (0.08, 1.0), ratio: (0.75, 1.333_333_4) };

fn random(size: (u32, u32), key: u64) -> (u32, u32, u32, u32) {
    let crop = Crop::new(IMAGENET, size, Draws::new(key)).unwrap();
    assert!(crop.alone && crop.target == (224, 224));
    (crop.left as u32, crop.top as u32, crop.width as u32, crop.height as u32)
}

/// Keys decide crops, and crops are crop of a training order: these values must never change.
#[test]
fn parts_of_fixed_keys_are_pinned() {
    let drawn: Vec<_> = (0..4).map(|key| random((500, 375), key)).collect();
    assert_eq!(drawn, [(25, 32, 261, 343), (29, 19, 434, 331), (34, 5, 390, 369), (25, 1, 381, 357)]);
}

#[test]
fn the_center_is_torchvisions() {
    let center =
        |size, short, height, width| Crop::new(Size::Center { short, height, width }, size, Draws::new(0)).unwrap();
    // 500 × 375 becomes 341 × 256; the crop is columns 58 to 282 (58.5 rounds to even) and rows 16 to 240.
    let crop = center((500, 375), 256, 224, 224);
    let (across, down) = (500.0 / 341.0, 375.0 / 256.0);
    assert_eq!((crop.left, crop.top), (58.0 * across, 16.0 * down));
    assert_eq!((crop.width, crop.height, crop.alone), (224.0 * across, 224.0 * down, false));
    assert!(center((256, 256), 256, 256, 256).is_all((256, 256)));
    assert_eq!(center((300, 256), 256, 256, 256).left, 22.0);
}

#[test]
fn impossible_crops_fall_back_to_the_centre() {
    // No half of 1000 × 10 pixels is nearly square.
    let size = Size::Random { height: 8, width: 8, scale: (0.5, 1.0), ratio: (0.75, 1.333) };
    let crop = Crop::new(size, (1000, 10), Draws::new(5)).unwrap();
    assert_eq!((crop.left, crop.top, crop.width, crop.height), (493.0, 0.0, 13.0, 10.0));
    let crop = Crop::new(size, (10, 1000), Draws::new(5)).unwrap();
    assert_eq!((crop.left, crop.top, crop.width, crop.height), (0.0, 493.0, 10.0, 13.0));
    let crop = Crop::new(size, (1, 1), Draws::new(5)).unwrap();
    assert_eq!((crop.width, crop.height), (1.0, 1.0));
}

/// Area and logarithm of the aspect ratio are uniform, as in torchvision.
#[test]
fn parts_are_spread_as_asked() {
    let many = 20_000u64;
    let parts = (0..many).map(|key| random((1000, 1000), key.wrapping_mul(0x1234_5678_9abc_def1)));
    let (mut area, mut log, mut place) = (0.0, 0.0, 0.0);
    for (left, _, width, height) in parts {
        area += f64::from(width) * f64::from(height) / 1e6 / many as f64;
        log += (f64::from(width) / f64::from(height)).ln() / many as f64;
        place += f64::from(left) / f64::from((1000 - width).max(1)) / many as f64;
    }
    // A crop of over 3/4 of a square may not fit and is drawn again, which favours small ones: torchvision's mean is
    // 0.478, not 0.54.
    assert!((0.474..0.483).contains(&area), "{area}");
    assert!(log.abs() < 0.01, "{log}");
    assert!((0.48..0.52).contains(&place), "{place}");
}

#[test]
fn exact_refuses_other_sizes() {
    let size = Size::Exact { height: 3, width: 4 };
    assert!(Crop::new(size, (4, 3), Draws::new(0)).unwrap().is_all((4, 3)));
    let error = Crop::new(size, (3, 4), Draws::new(0)).unwrap_err();
    assert!(error.message().starts_with("is 4 × 3 pixels, not 3 × 4; "));
}

proptest! {
    #[test]
    fn a_part_lies_within(w in 1u32..70_000, h in 1u32..70_000, key: u64, short in 224u32..3000,
                          area in 0.001f32..1.0, ratio in 0.01f32..100.0) {
        let random = Size::Random { height: 7, width: 9, scale: (area, 1.0), ratio: (ratio, ratio * 1.5) };
        for size in [IMAGENET, random, Size::Center { short, height: 224, width: 200 }] {
            let crop = Crop::new(size, (w, h), Draws::new(key)).unwrap();
            prop_assert!(crop.left >= 0.0 && crop.top >= 0.0 && crop.width > 0.0 && crop.height > 0.0);
            prop_assert!(crop.left + crop.width <= f64::from(w) && crop.top + crop.height <= f64::from(h));
            prop_assert!(!crop.alone || [crop.left, crop.top, crop.width, crop.height].iter().all(|v| v.fract() == 0.0));
        }
    }
}
