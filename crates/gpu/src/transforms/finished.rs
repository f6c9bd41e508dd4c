//! Which part of a field the GPU makes.

use super::{Augmented, DeviceTransform, Pictures, Resized, Targets};
use crate::Element;
use crate::kernels::{self, Augment, Blur, Crop, Erase, Flip, Image, Jitter, Mix, Pixels, Resize, Rotate};
use packhorse_core::{Error, Result};
use packhorse_read::{FieldKind, FieldOptions, Normalize};
use packhorse_transform::image::{Filter, Size, View};
use std::sync::Arc;

/// Fields to load, and the transforms that make the wanted fields of them.
pub type Finished = (Vec<FieldOptions>, Vec<Arc<dyn DeviceTransform>>);

/// How a GPU changes a field of pictures: see [`Augmented`].
#[derive(Clone, Debug, PartialEq)]
pub struct Colors {
    /// Whether pictures turn.
    pub rotate: Rotate,
    /// How colours change.
    pub jitter: Jitter,
    /// The probability that a picture becomes gray.
    pub grayscale: f32,
    /// Whether pictures are blurred.
    pub blur: Blur,
    /// Whether a part is erased.
    pub erase: Erase,
    /// Whether pictures are mixed, and their labels.
    pub mix: Mix,
    /// The labels that are mixed with the pictures.
    pub targets: Option<Targets>,
}

impl Colors {
    /// From one field to another. Crops and flips are the loader's here, or `flip`.
    ///
    /// Errors (kind `Config`): impossible settings.
    pub(crate) fn augmented(
        self,
        (from, into): (&str, &str),
        flip: Flip,
        output: Pixels,
    ) -> Result<Arc<dyn DeviceTransform>> {
        let Self { rotate, jitter, grayscale, blur, erase, mix, targets } = self;
        // The size of pictures is not known here; this one has all blurs.
        let image = Image { flip, ..Image::new((256, 256), 3, output) };
        let checked = Augment { image, rotate, jitter, grayscale, blur, erase, mix };
        checked.launches(256, 256, 256, 256, (1, None)).map_err(|e| e.in_field(into))?;
        let usual = Augmented { into: into.to_owned(), ..Augmented::new(from) };
        Ok(Arc::new(Augmented { flip, output, rotate, jitter, grayscale, blur, erase, mix, targets, ..usual }))
    }
}

/// The fields to send to a GPU, and the transforms that finish them there: pictures that are normalised travel as bytes, a quarter
/// of the size, and have the same values as by the CPU. Rows without a picture are zeros after that, which the GPU can't tell, so
/// fields that are not required are normalised by the CPU. Those of `colors`, by name, have their colours changed too.
///
/// Errors (kind `Unsupported`): colours of pictures that are not required, that have sizes of their own, or a lane above 0.
pub fn finished(fields: Vec<FieldOptions>, colors: &[(String, Colors)]) -> Result<Finished> {
    let mut transforms: Vec<Arc<dyn DeviceTransform>> = Vec::new();
    let mut sent = Vec::new();
    for field in fields {
        let colors = colors.iter().find(|(name, _)| *name == field.name).map(|(_, colors)| colors.clone());
        let (view, output) = match field.kind {
            FieldKind::Picture(view) if colors.is_some() => (view, Pixels::BYTES),
            FieldKind::Normalized(view, normalize) => (view, pixels(normalize)),
            _ => {
                sent.push(field);
                continue;
            }
        };
        match colors {
            Some(_) if view.lane > 0 => return Err(no_lane(&field)),
            _ if field.required && view.shape().is_some() => {}
            Some(_) => return Err(no_colors(&field)),
            None => {
                sent.push(field);
                continue;
            }
        }
        transforms.push(match colors {
            Some(colors) => colors.augmented((&field.name, &field.name), Flip::Never, output)?,
            None => Arc::new(Pictures { output, ..Pictures::new(&field.name) }),
        });
        sent.push(FieldOptions { kind: FieldKind::Picture(view), ..field });
    }
    Ok((sent, transforms))
}

fn no_colors(field: &FieldOptions) -> Error {
    let message = format!("field {}: colours change in pictures of one size that every sample has", field.name);
    Error::unsupported(message).in_field(&field.name)
}

fn no_lane(field: &FieldOptions) -> Error {
    let message = format!("field {}: on the GPU pictures have the random numbers of lane 0", field.name);
    Error::unsupported(message)
        .in_field(&field.name)
        .hint("cut pictures of other lanes on the CPU, and leave their colours")
}

/// The same for samples that the GPU keeps ([`Resident`](crate::Resident)): it also cuts and mirrors pictures at random, in each
/// epoch another way, from the keys that the CPU would use. Flips are then those of the CPU, and so are random crops, with pixels within
/// 2 of 255: whole pictures are kept for these, in their own sizes.
///
/// Errors (kind `Unsupported`): as for [`finished`]; random crops with a bicubic filter, or with colours that change.
pub fn finished_of_resident(fields: Vec<FieldOptions>, colors: &[(String, Colors)]) -> Result<Finished> {
    let (mut kept, mut transforms) = (Vec::new(), Vec::<Arc<dyn DeviceTransform>>::new());
    for field in fields {
        let colors = colors.iter().find(|(name, _)| *name == field.name).map(|(_, colors)| colors.clone());
        let (view, output) = match field.kind {
            FieldKind::Picture(view) if field.required && (view.is_random() || colors.is_some()) => {
                (view, Pixels::BYTES)
            }
            FieldKind::Normalized(view, normalize) if field.required => (view, pixels(normalize)),
            _ if colors.is_some() => return Err(no_colors(&field)),
            _ => {
                kept.push(field);
                continue;
            }
        };
        if view.lane > 0 && (view.is_random() || colors.is_some()) {
            return Err(no_lane(&field));
        }
        let flip = if view.flip > 0.0 { Flip::Drawn(view.flip) } else { Flip::Never };
        let still = View { flip: 0.0, ..view };
        let still = match (view.size, colors) {
            (Size::Random { height, width, scale, ratio }, None) => {
                if view.filter == Filter::Bicubic {
                    let message = "the GPU resamples random crops bilinearly, not bicubically";
                    return Err(Error::unsupported(message).in_field(&field.name).hint("take the bilinear filter"));
                }
                let size = (height, width);
                let resize = Resize { channels: 3, size, crop: Crop::Random { scale, ratio }, flip, output };
                transforms.push(Arc::new(Resized { resize, ..Resized::new(&field.name, size) }));
                View { size: Size::Keep, reduced: false, ..still }
            }
            (Size::Random { .. }, Some(_)) => {
                let message = format!(
                    "field {}: pictures that are kept are not both cut at random and changed in colour",
                    field.name
                );
                return Err(Error::unsupported(message)
                    .in_field(&field.name)
                    .hint("keep one size, or load batches as they are needed"));
            }
            (Size::Keep, Some(_)) => return Err(no_colors(&field)),
            (Size::Keep, None) => {
                let message = format!(
                    "field {}: pictures of their own sizes that are kept are not mirrored at random",
                    field.name
                );
                return Err(Error::unsupported(message).in_field(&field.name).hint("give them one size, or no flip"));
            }
            (_, Some(colors)) => {
                transforms.push(colors.augmented((&field.name, &field.name), flip, output)?);
                still
            }
            (_, None) => {
                transforms.push(Arc::new(Pictures { flip, output, ..Pictures::new(&field.name) }));
                still
            }
        };
        kept.push(FieldOptions { kind: FieldKind::Picture(still), ..field });
    }
    Ok((kept, transforms))
}

/// The output of a normalisation by the CPU.
pub(crate) fn pixels(normalize: Normalize) -> Pixels {
    let ([a, b, c], [d, e, f]) = (normalize.mean, normalize.std);
    let scale = kernels::Normalize { mean: [a, b, c, 0.0], std: [d, e, f, 1.0] };
    Pixels { element: Element::F32, axes: normalize.axes, normalize: scale }
}
