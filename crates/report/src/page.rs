//! A page: one HTML document with styles inside. Works by keyboard, on small screens, in light and dark.

use crate::chart::{Chart, line};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The colours and the layout. Everything that needs a script or a network is left out.
const STYLE: &str = include_str!("page.css");

/// A sample on a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Card {
    /// Its name.
    pub title: String,
    /// A JPEG.
    pub picture: Option<Vec<u8>>,
    /// The first numbers of an array, drawn as a line where there is no picture.
    pub plot: Vec<f64>,
    /// Names and values.
    pub lines: Vec<(String, String)>,
}

/// A document under construction. Text is escaped, so it may come from anywhere.
///
/// ```
/// use packhorse_report::{Card, Page};
///
/// let mut page = Page::new("Batch of step 7");
/// page.facts(&[("epoch", "0".to_owned())]);
/// page.cards("Samples", &[Card { title: "cat/1".into(), ..Card::default() }]);
/// assert!(page.render().starts_with("<!doctype html>"));
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), body: String::new() }
    }

    /// Adds a list of names and values.
    pub fn facts(&mut self, facts: &[(&str, String)]) {
        self.body.push_str("<dl class=\"facts\">\n");
        for (name, value) in facts {
            self.body.push_str(&format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value)));
        }
        self.body.push_str("</dl>\n");
    }

    /// Begins a section.
    pub fn heading(&mut self, heading: &str) {
        self.body.push_str(&format!("<h2>{}</h2>\n", escaped(heading)));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: &str) {
        self.body.push_str(&format!("<p>{}</p>\n", escaped(text)));
    }

    /// Adds charts, side by side where there is room. The values of each are there as a table too.
    pub fn charts(&mut self, charts: &[Chart]) {
        self.body.push_str("<div class=\"charts\">\n");
        for chart in charts {
            let (title, svg) = (escaped(&chart.title), chart.svg());
            self.body
                .push_str(&format!("<figure><figcaption>{title}</figcaption>{svg}<details><summary>Values</summary>"));
            let header: Vec<&str> =
                std::iter::once("").chain(chart.series.iter().map(|(name, _)| name.as_str())).collect();
            self.rows(&header, &chart.rows());
            self.body.push_str("</details></figure>\n");
        }
        self.body.push_str("</div>\n");
    }

    /// Adds a table.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        self.body.push_str("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table\">");
        self.rows(header, rows);
        self.body.push_str("</div>\n");
    }

    fn rows(&mut self, header: &[&str], rows: &[Vec<String>]) {
        let cells = |tag: &str, cells: &mut dyn Iterator<Item = String>| -> String {
            cells.map(|cell| format!("<{tag}>{cell}</{tag}>")).collect()
        };
        let head = cells("th", &mut header.iter().map(|name| escaped(name)));
        self.body.push_str(&format!("<table><thead><tr>{head}</tr></thead><tbody>\n"));
        for row in rows {
            let row = cells("td", &mut row.iter().map(|cell| escaped(cell)));
            self.body.push_str(&format!("<tr>{row}</tr>\n"));
        }
        self.body.push_str("</tbody></table>\n");
    }

    /// Adds a section of cards.
    pub fn cards(&mut self, heading: &str, cards: &[Card]) {
        self.heading(heading);
        self.body.push_str("<ol class=\"cards\">\n");
        for card in cards {
            self.card(card);
        }
        self.body.push_str("</ol>\n");
    }

    fn card(&mut self, card: &Card) {
        let title = escaped(&card.title);
        self.body.push_str("<li>");
        if let Some(picture) = &card.picture {
            let data = STANDARD.encode(picture);
            self.body
                .push_str(&format!("<img src=\"data:image/jpeg;base64,{data}\" alt=\"{title}\" loading=\"lazy\">"));
        }
        if card.picture.is_none() && card.plot.len() > 1 {
            self.body.push_str(&line(&card.plot, &format!("first values of {title}")));
        }
        self.body.push_str(&format!("<h3>{title}</h3><dl>"));
        for (name, value) in &card.lines {
            self.body.push_str(&format!("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value)));
        }
        self.body.push_str("</dl></li>\n");
    }

    /// The document.
    pub fn render(&self) -> String {
        let title = escaped(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{}</main>\n\
             </body>\n</html>\n",
            self.body
        )
    }
}

/// Text as HTML: markup is shown, and characters that HTML does not allow are replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        let evil = "\"><script>alert(1)</script>\u{0}&";
        let mut page = Page::new(evil);
        page.facts(&[(evil, evil.to_owned())]);
        let lines = vec![(evil.to_owned(), evil.to_owned())];
        let card = Card { title: evil.to_owned(), lines, ..Card::default() };
        page.cards(evil, &[Card { picture: Some(vec![0xff]), ..card.clone() }, Card { plot: vec![0.0, 1.0], ..card }]);
        page.text(evil);
        page.table(&[evil], &[vec![evil.to_owned()]]);
        let bars = vec![(evil.to_owned(), vec![1.0])];
        page.charts(&[Chart { title: evil.to_owned(), labels: vec![evil.to_owned()], series: bars, upright: false }]);
        let text = page.render();
        assert!(!text.contains("<script"), "{text}");
        assert!(!text.contains('\u{0}'), "{text}");
        assert!(text.matches("&lt;script&gt;").count() > 20, "{text}");
    }

    #[test]
    fn nothing_is_fetched() {
        let page = Page::new("x").render();
        assert!(!["http:", "https:", "url(", "@import", "src="].iter().any(|part| page.contains(part)), "{page}");
    }
}
