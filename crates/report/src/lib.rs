//! Pages that show the samples of a dataset: one HTML file with its pictures and styles inside, which opens without a server
//! and without a network. Owns HTML, charts and thumbnails; knows no format, no terminal and no training loop.

mod chart;
mod dataset_page;
mod diagnosis;
mod histogram;
mod numbers;
mod page;
mod sample_cards;
mod survey;
mod thumbnail;

pub use chart::Chart;
pub use dataset_page::{DatasetReport, dataset_report};
pub use diagnosis::DiagnosisResult;
pub use page::{Card, Page};
pub use sample_cards::{SampleCards, is_picture};
pub use thumbnail::thumbnail;
