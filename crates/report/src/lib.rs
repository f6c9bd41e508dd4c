//! Pages that show the samples of a dataset: one HTML file with its pictures and styles inside, which opens without a server
//! and without a network. Owns HTML and thumbnails; knows no dataset and no file.

mod page;
mod thumbnail;

pub use page::{Card, Page};
pub use thumbnail::thumbnail;
