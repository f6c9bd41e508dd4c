//! Charts as inline SVG: bars, and the line of an array. Colours are those of the page, so that light and dark both work.

use crate::page::escaped;

/// Bars: one group for each label, one bar in it for each series.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// The name of each group.
    pub labels: Vec<String>,
    /// Names and values of the series; a value for each label.
    pub series: Vec<(String, Vec<f64>)>,
    /// Whether bars stand beside each other, as in a histogram; else they lie below each other, with room for long labels.
    pub upright: bool,
}

/// The colours of series, as classes of the page's styles.
const COLOURS: usize = 4;

/// Sizes in units of the drawing.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 180.0;
const ROW: f64 = 18.0;
const LABEL: f64 = 150.0;
const NUMBER: f64 = 60.0;
const FOOT: f64 = 18.0;

impl Chart {
    /// Label and values of each group.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let value = |values: &Vec<f64>, at: usize| values.get(at).map_or_else(String::new, |value| number(*value));
        let row = |(at, label): (usize, &String)| {
            std::iter::once(label.clone()).chain(self.series.iter().map(|(_, values)| value(values, at))).collect()
        };
        self.labels.iter().enumerate().map(row).collect()
    }

    pub(crate) fn svg(&self) -> String {
        let most =
            self.series.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let (height, body) = if self.upright { self.columns(most) } else { self.lines(most) };
        let title = escaped(&self.title);
        let svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\" preserveAspectRatio=\"xMinYMin meet\">{body}</svg>"
        );
        format!("{svg}{}", self.legend())
    }

    /// Bars that stand, and the labels of the first, the middle and the last.
    fn columns(&self, most: f64) -> (f64, String) {
        let (groups, series) = (self.labels.len().max(1) as f64, self.series.len().max(1) as f64);
        let width = WIDTH / groups;
        let mut body = String::new();
        for (s, (_, values)) in self.series.iter().enumerate() {
            for (at, value) in values.iter().enumerate() {
                let bar = (value / most * (HEIGHT - FOOT)).max(if *value > 0.0 { 1.0 } else { 0.0 });
                let x = at as f64 * width + s as f64 * width * 0.9 / series;
                body.push_str(&format!(
                    "<rect class=\"s{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{bar:.1}\"/>",
                    s % COLOURS,
                    HEIGHT - FOOT - bar,
                    width * 0.9 / series
                ));
            }
        }
        let last = self.labels.len().saturating_sub(1);
        let mut ends = vec![(0, "start", 0.0), (last / 2, "middle", WIDTH / 2.0), (last, "end", WIDTH)];
        ends.truncate(if last == 0 { 1 } else { 3 });
        for (at, anchor, x) in ends {
            let label = escaped(self.labels.get(at).map_or("", String::as_str));
            body.push_str(&format!("<text x=\"{x}\" y=\"{}\" text-anchor=\"{anchor}\">{label}</text>", HEIGHT - 4.0));
        }
        (HEIGHT, body)
    }

    /// Bars that lie, each with its label and its value.
    fn lines(&self, most: f64) -> (f64, String) {
        let room = WIDTH - LABEL - NUMBER;
        let series = self.series.len().max(1);
        let mut body = String::new();
        for (at, label) in self.labels.iter().enumerate() {
            let top = (at * series) as f64 * ROW;
            body.push_str(&format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                LABEL - 6.0,
                top + 13.0,
                escaped(&short(label))
            ));
            for (s, (_, values)) in self.series.iter().enumerate() {
                let value = values.get(at).copied().unwrap_or_default();
                let (y, bar) = (top + s as f64 * ROW + 3.0, value / most * room);
                body.push_str(&format!(
                    "<rect class=\"s{}\" x=\"{LABEL}\" y=\"{y}\" width=\"{bar:.1}\" height=\"{}\"/><text x=\"{:.1}\" \
                     y=\"{}\">{}</text>",
                    s % COLOURS,
                    ROW - 5.0,
                    LABEL + bar + 5.0,
                    y + 10.0,
                    number(value)
                ));
            }
        }
        ((self.labels.len() * series) as f64 * ROW + 4.0, body)
    }

    fn legend(&self) -> String {
        if self.series.len() < 2 {
            return String::new();
        }
        let entry = |(s, (name, _)): (usize, &(String, Vec<f64>))| {
            format!("<li><span class=\"s{}\"></span>{}</li>", s % COLOURS, escaped(name))
        };
        format!("<ul class=\"legend\">{}</ul>", self.series.iter().enumerate().map(entry).collect::<String>())
    }
}

/// A line through `values`, without axes.
pub(crate) fn line(values: &[f64], title: &str) -> String {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let span = if high > low { high - low } else { 1.0 };
    let step = 160.0 / values.len().saturating_sub(1).max(1) as f64;
    let points = values.iter().enumerate().filter(|(_, value)| value.is_finite());
    let points: Vec<String> = points
        .map(|(at, value)| format!("{:.1},{:.1}", at as f64 * step, 58.0 - (value - low) / span * 56.0))
        .collect();
    format!(
        "<svg class=\"line\" viewBox=\"0 0 160 60\" role=\"img\" aria-label=\"{title}\"><polyline points=\"{}\"/></svg>",
        points.join(" ")
    )
}

/// The longest label beside a bar, in characters.
const LONGEST: usize = 22;

fn short(label: &str) -> String {
    match label.char_indices().nth(LONGEST) {
        None => label.to_owned(),
        Some((end, _)) => format!("{}…", label.get(..end).unwrap_or_default()),
    }
}

/// A number with at most four digits, and a unit of thousands where it is large.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    let (scaled, unit) = match magnitude {
        m if m >= 1e12 => (value / 1e12, "T"),
        m if m >= 1e9 => (value / 1e9, "G"),
        m if m >= 1e6 => (value / 1e6, "M"),
        m if m >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        s if s >= 100.0 || s.fract() == 0.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 0.01 => 2,
        _ => return format!("{scaled:.1e}{unit}"),
    };
    format!("{scaled:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [(0.0, "0"), (7.0, "7"), (0.25, "0.25"), (1234.0, "1234"), (12_345.0, "12.3k"), (2.5e9, "2.50G")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(1e-7), "1.0e-7");
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let series = vec![("a".to_owned(), vec![1.0, 4.0]), ("b".to_owned(), vec![0.0, 2.0])];
        let labels = vec!["x".to_owned(), "y".to_owned()];
        let lying = Chart { title: "t".into(), labels, series, upright: false };
        let widths: Vec<f64> = widths(&lying.svg(), "width=\"");
        assert_eq!(widths, [67.5, 0.0, 270.0, 135.0]);
        let standing = Chart { upright: true, ..lying };
        assert_eq!(self::widths(&standing.svg(), " height=\""), [40.5, 162.0, 0.0, 81.0]);
    }

    /// The numbers behind `name` of all bars.
    fn widths(svg: &str, name: &str) -> Vec<f64> {
        let bars = svg.split("<rect").skip(1);
        bars.map(|bar| bar.split(name).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn lines_skip_what_is_not_a_number() {
        let svg = line(&[0.0, f64::NAN, 2.0, 1.0], "t");
        assert_eq!(svg.matches(',').count(), 3, "{svg}");
        assert!(line(&[3.0, 3.0], "t").contains("0.0,58.0 160.0,58.0"));
    }
}
