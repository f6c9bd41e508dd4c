//! Images: check, turn upright, resize.
//!
//! This module owns what happens to the pictures of a sample: blobs (`BinaryView`) in columns whose
//! name ends in `jpg`, `jpeg` or `png`. Every other column passes untouched. It refuses to know what
//! the pictures are for: a gray mask of 8 bits is resized like a photograph (palette and bilevel
//! masks keep their values, see [`Resize`]).
//!
//! **Bytes are kept exactly when nothing changes**: a picture that is small enough and upright passes
//! as it is, undecoded unless it is to be checked. A picture that must be written anew
//!
//! * stays what it was: a JPEG becomes a baseline JPEG of the chosen quality, 4:2:0 (gray stays gray,
//!   CMYK and YCCK become RGB); a PNG becomes a PNG with the same channels and depth (a palette of
//!   fewer than 8 bits is widened to 8, so is gray; transparency given as a colour becomes alpha);
//! * is upright, asked for or not, and carries no EXIF, so that no reader turns it twice or not at all;
//! * keeps its ICC profile, unless the colours it described are gone (CMYK). A PNG also keeps `gAMA`,
//!   `cHRM` and `sRGB`. Texts, thumbnails and other metadata are dropped.
//!
//! Decoding is strict: a picture that is cut short, or a PNG with a wrong checksum, is refused.
//! Readers that only want pixels use [`decode`]; training loops, which want them of one size, cropped,
//! flipped and in place, [`ViewDecoder`].

mod column;
mod decode;
mod jpeg;
mod kind;
mod mirror;
mod options;
mod orientation;
mod picture;
mod pixels;
mod png;
mod raster;
mod resample;
mod resize;
mod scale;
mod scratch;
mod view;
mod view_decoder;
mod window;

pub use decode::decode;
pub use jpeg::JpegFacts;
pub use options::ImageOptions;
pub use picture::Image;
pub use pixels::Pixels;
pub use resize::Resize;
pub use view::{Draws, Filter, Size, View};
pub use view_decoder::ViewDecoder;

#[cfg(test)]
mod samples;
