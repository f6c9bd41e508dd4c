//! Sizes for people.

/// Bytes for people, in powers of 1000.
pub(crate) fn show(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!((show(999), show(1_500), show(2_000_000_000)), ("999 B".into(), "1.5 KB".into(), "2.0 GB".into()));
    }
}
