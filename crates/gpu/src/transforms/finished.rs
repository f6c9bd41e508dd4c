//! Which part of a field the GPU makes.

use super::{DeviceTransform, Pictures, Resized};
use crate::Element;
use crate::kernels::{self, Crop, Flip, Pixels, Resize};
use packhorse_core::{Error, Result};
use packhorse_read::{Axes, FieldKind, FieldOptions, Normalize};
use packhorse_transform::image::{Filter, Size, View};
use std::sync::Arc;

/// Fields to load, and the transforms that make the wanted fields of them.
pub type Finished = (Vec<FieldOptions>, Vec<Arc<dyn DeviceTransform>>);

/// The fields to send to a GPU, and the transforms that finish them there: pictures that are normalised travel as bytes, a quarter
/// of the size, and have the same values as by the CPU. Rows without a picture are zeros after that, which the GPU can't tell, so
/// fields that are not required are normalised by the CPU.
pub fn finished(fields: Vec<FieldOptions>) -> Finished {
    let mut transforms: Vec<Arc<dyn DeviceTransform>> = Vec::new();
    let fields = fields.into_iter().map(|field| match field.kind {
        FieldKind::Normalized(view, normalize) if field.required && view.shape().is_some() => {
            transforms.push(Arc::new(Pictures { output: pixels(normalize), ..Pictures::new(&field.name) }));
            FieldOptions { kind: FieldKind::Picture(view), ..field }
        }
        _ => field,
    });
    (fields.collect(), transforms)
}

/// The same for samples that the GPU keeps ([`Resident`](crate::Resident)): it also cuts and mirrors pictures at random, for each
/// epoch anew, from the keys that the CPU would use. Flips are then those of the CPU, and so are random crops, with pixels within
/// 2 of 255: whole pictures are kept for these, in their own sizes.
///
/// Errors (kind `Unsupported`): random crops with a bicubic filter.
pub fn finished_of_resident(fields: Vec<FieldOptions>) -> Result<Finished> {
    let (mut kept, mut transforms) = (Vec::new(), Vec::<Arc<dyn DeviceTransform>>::new());
    for field in fields {
        let (view, output) = match field.kind {
            FieldKind::Picture(view) if field.required && view.is_random() => (view, Pixels::BYTES),
            FieldKind::Normalized(view, normalize) if field.required => (view, pixels(normalize)),
            _ => {
                kept.push(field);
                continue;
            }
        };
        let flip = if view.flip > 0.0 { Flip::Drawn(view.flip) } else { Flip::Never };
        let still = View { flip: 0.0, ..view };
        let still = match view.size {
            Size::Random { height, width, scale, ratio } => {
                if view.filter == Filter::Bicubic {
                    let message = "the GPU resamples random crops bilinearly, not bicubically";
                    return Err(Error::unsupported(message).in_field(&field.name).hint("take the bilinear filter"));
                }
                let size = (height, width);
                let resize = Resize { channels: 3, size, crop: Crop::Random { scale, ratio }, flip, output };
                transforms.push(Arc::new(Resized { resize, ..Resized::new(&field.name, size) }));
                View { size: Size::Keep, reduced: false, ..still }
            }
            _ => {
                transforms.push(Arc::new(Pictures { flip, output, ..Pictures::new(&field.name) }));
                still
            }
        };
        kept.push(FieldOptions { kind: FieldKind::Picture(still), ..field });
    }
    Ok((kept, transforms))
}

/// The output of a normalisation by the CPU.
fn pixels(normalize: Normalize) -> Pixels {
    let ([a, b, c], [d, e, f]) = (normalize.mean, normalize.std);
    let axes = match normalize.axes {
        Axes::Chw => kernels::Axes::Chw,
        Axes::Hwc => kernels::Axes::Hwc,
    };
    let normalize = kernels::Normalize { mean: [a, b, c, 0.0], std: [d, e, f, 1.0] };
    Pixels { element: Element::F32, axes, normalize }
}
