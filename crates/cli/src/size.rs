//! Sizes for people.

/// Bytes for people, in powers of 1000.
pub(crate) fn show(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KB", "MB", "GB", "TB"] {
        // 999.95 would be shown as 1000.0.
        if value < if unit == "B" { 1000.0 } else { 999.95 } {
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
        assert_eq!((show(999), show(1_500), show(999_999)), ("999 B".into(), "1.5 KB".into(), "1.0 MB".into()));
    }
}
