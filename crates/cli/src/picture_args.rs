//! How loaders decode pictures: the flags, and the fields that they make.

use clap::Args as ClapArgs;
use packhorse_read::{FieldKind, Normalize};
use packhorse_transform::image::{Size, View};

#[derive(ClapArgs)]
pub(crate) struct PictureFlags {
    /// Decode pictures to N x N pixels: resize the shorter side to N and crop the centre [default: pictures stay bytes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) size: Option<u32>,

    /// Take random crops of pictures and flip each with a probability of 0.5, as in training; with --size
    #[arg(long, requires = "size")]
    pub(crate) augment: bool,

    /// Return pixels as float32, channels first, normalised with ImageNet's means and standard deviations, instead of
    /// uint8; with --size
    #[arg(long, requires = "size")]
    pub(crate) normalize: bool,
}

impl PictureFlags {
    /// The kind of fields with pictures; `None` if they stay bytes.
    pub(crate) fn kind(&self) -> Option<FieldKind> {
        let view = view(self.size?, self.augment);
        Some(match self.normalize {
            true => FieldKind::Normalized(view, Normalize::IMAGENET),
            false => FieldKind::Picture(view),
        })
    }
}

/// Pictures of `size` x `size`: their centre, or random parts of them.
pub(crate) fn view(size: u32, augment: bool) -> View {
    let (height, width) = (size, size);
    if !augment {
        return View { size: Size::Center { short: size, height, width }, ..View::default() };
    }
    let size = Size::Random { height, width, scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) };
    View { size, flip: 0.5, ..View::default() }
}
