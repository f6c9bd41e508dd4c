//! Images: check, turn upright, resize.
//!
//! This module owns what happens to the pictures of a sample: blobs (`BinaryView`) in columns whose name ends as names of
//! pictures do (`jpg`, `png`, `webp`, `tif`, …). Every other column passes untouched. A column that claims to hold
//! pictures, and holds something that is not decoded here (AVIF, HEIC, JPEG XL, a web page), is a fault and named.
//! What a picture is, its first bytes decide: a PNG called `.jpg` is a PNG. This module refuses to know what
//! the pictures are for: a gray mask of 8 bits is resized like a photograph (palette and bilevel
//! masks keep their values, see [`Resize`]).
//!
//! **Bytes are kept exactly when nothing changes**: a picture that is small enough and upright passes
//! as it is, undecoded unless it is to be checked. A picture that must be rewritten
//!
//! * stays what it was: a JPEG becomes a baseline JPEG of the chosen quality, 4:2:0 (gray stays gray,
//!   CMYK and YCCK become RGB); a PNG becomes a PNG with the same channels and depth (a palette of
//!   fewer than 8 bits is widened to 8, so is gray; transparency given as a colour becomes alpha); a WebP, TIFF, BMP, GIF
//!   or PNM one of these without loss, of an animation the first frame;
//! * is upright, asked for or not, and says so: no reader turns it twice or not at all;
//! * keeps of its metadata what [`Keep`] says: its ICC profile, unless the colours it described are gone (CMYK), and
//!   EXIF where asked for. A PNG also keeps `gAMA`, `cHRM` and `sRGB`. Texts, thumbnails and other metadata are dropped.
//!
//! Decoding is strict: a picture that is cut short, or a PNG with a wrong checksum, is refused. Whether a JPEG is whole
//! only [`Check::Strict`] tells.
//! Readers that only want pixels use [`decode`]; training loops, which want them of one size, cropped,
//! flipped and in place, [`ViewDecoder`].

mod column;
mod decode;
mod exif;
mod jpeg;
mod kind;
mod mirror;
mod options;
mod orientation;
#[cfg(feature = "image")]
mod other;
#[cfg(not(feature = "image"))]
#[path = "image/absent.rs"]
mod other;
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
pub use options::{Check, ImageOptions, Keep};
pub use picture::Image;
pub use pixels::Pixels;
pub use resize::Resize;
pub use view::{Draws, Filter, Size, View};
pub use view_decoder::ViewDecoder;

#[cfg(test)]
mod samples;
