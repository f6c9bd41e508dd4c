//! Images: check, orient, resize.
//!
//! This module owns what happens to images: blobs (`BinaryView`) in columns whose name ends in an image extension
//! (`jpg`, `png`, `webp`, `tif`, …). Other columns pass unchanged. A blob in such a column that can't be decoded here
//! (AVIF, HEIC, JPEG XL, a web page) is an error that names what it is. Content decides the format: a PNG called
//! `.jpg` is a PNG. This module does not know what images are for: an 8-bit gray mask is resized like a photograph
//! (palette and bilevel masks keep their values, see [`Resize`]).
//!
//! **An unchanged image keeps its bytes.** An image that needs neither resizing nor orienting passes as it is; only a
//! check decodes it. An image that is rewritten
//!
//! * keeps its format, unless [`ImageOptions::jpeg`] names its field. A JPEG becomes a baseline JPEG of the chosen
//!   quality, 4:2:0; gray stays gray, CMYK and YCCK become RGB. A PNG keeps its channels and depth; palettes and gray below 8 bits are widened to 8, a transparent
//!   colour becomes an alpha channel. WebP, TIFF, BMP, GIF and PNM are written lossless; only the first frame of an
//!   animation is kept;
//! * is upright in pixels and metadata, so that no reader rotates it again;
//! * keeps the metadata that [`Keep`] selects: the ICC profile, unless it describes colours that are gone (CMYK), and
//!   EXIF on request. A PNG also keeps `gAMA`, `cHRM` and `sRGB`. All else is dropped: text, thumbnails, XMP.
//!
//! Decoding is strict: truncated images and PNGs with a wrong checksum are errors. Only [`Check::Strict`] proves a
//! JPEG complete. To get pixels use [`decode`]; for training, with crop, resize and flip into a batch,
//! [`ViewDecoder`], and for masks [`MaskDecoder`].

mod column;
mod crop_window;
mod decode;
mod exif;
mod format;
mod jpeg;
mod mask_decoder;
mod mirror;
mod options;
mod orientation;
#[cfg(feature = "image")]
mod other;
#[cfg(not(feature = "image"))]
#[path = "image/absent.rs"]
mod other;
mod picture;
mod pixel_buffer;
mod pixels;
mod png;
mod raster;
mod resample;
mod resize;
mod scale;
mod to_jpeg;
mod view;
mod view_decoder;

pub use decode::{decode, upright_size};
pub use jpeg::JpegFacts;
pub use mask_decoder::MaskDecoder;
pub use options::{Check, ImageOptions, Keep};
pub use picture::Image;
pub use pixels::Pixels;
pub use resize::Resize;
pub use view::{Draws, Filter, Size, View};
pub use view_decoder::ViewDecoder;

#[cfg(test)]
mod samples;
