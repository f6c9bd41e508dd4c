//! Which fields of a loader nvJPEG decodes.

use super::{JpegOptions, Jpegs, NvJpeg};
use crate::Cuda;
use crate::kernels::{Crop, Flip, Pixels, Resize};
use crate::transforms::{Colors, Finished, pixels};
use packhorse_core::{Error, Result};
use packhorse_read::{FieldKind, FieldOptions};
use packhorse_transform::image::{Filter, Size, View};
use std::sync::Arc;

/// The fields to send to a GPU, and the transforms that decode the pictures of those with these names there. They have the sizes, types and
/// crops of those that the CPU makes, and other pixels, within what docs/nvjpeg.md says. Their colours change by `colors`, by name. The
/// other fields stay as they are.
///
/// Errors: fields that hold no pictures of one size, bicubic filters, normalised pictures that samples may lack (kind
/// `Unsupported`); those of [`Jpegs::new`].
pub fn decoded(
    gpu: &Cuda,
    library: &NvJpeg,
    fields: Vec<FieldOptions>,
    names: &[String],
    colors: &[(String, Colors)],
) -> Result<Finished> {
    let (mut sent, mut steps) = (Vec::new(), Finished::default().1);
    for field in fields {
        if !names.contains(&field.name) {
            sent.push(field);
            continue;
        }
        let options = JpegOptions::of(&field)?;
        let changed = colors.iter().find(|(name, _)| *name == field.name).map(|(_, colors)| colors.clone());
        match changed {
            None => steps.push(Arc::new(Jpegs::new(gpu, library, options)?)),
            Some(colors) if field.required => {
                let output = options.resize.output;
                let decoded = format!("{}.decoded", field.name);
                let resize = Resize { output: Pixels::BYTES, ..options.resize };
                steps.push(Arc::new(Jpegs::new(
                    gpu,
                    library,
                    JpegOptions { resize, into: decoded.clone(), ..options },
                )?));
                steps.push(colors.augmented((&decoded, &field.name), Flip::Never, output)?);
            }
            Some(_) => return Err(refused(&field, "colours change in pictures that every sample has")),
        }
        sent.push(FieldOptions { kind: FieldKind::Bytes, ..field });
    }
    Ok((sent, steps))
}

/// Names of the fields that the GPU can decode, if it has nvJPEG.
pub fn decodable(fields: &[FieldOptions]) -> Vec<String> {
    let found = fields.iter().filter(|field| JpegOptions::of(field).is_ok());
    found.map(|field| field.name.clone()).collect()
}

impl JpegOptions {
    /// The pictures of a loader's field, decoded on the GPU instead, under the same name: of the same size, type, crop and flip.
    ///
    /// Errors (kind `Unsupported`): as for [`decoded`].
    pub fn of(field: &FieldOptions) -> Result<Self> {
        let (view, output) = match field.kind {
            FieldKind::Picture(view) => (view, Pixels::BYTES),
            FieldKind::Normalized(..) if !field.required => {
                return Err(refused(field, "the GPU normalises pictures that every sample has"));
            }
            FieldKind::Normalized(view, normalize) => (view, pixels(normalize)),
            _ => return Err(refused(field, "the GPU decodes pictures")),
        };
        let View { size, flip, filter, lane, .. } = view;
        if lane > 0 && view.is_random() {
            return Err(refused(field, "on the GPU pictures have the random numbers of lane 0")
                .hint("decode those of other lanes on the CPU"));
        }
        if filter == Filter::Bicubic {
            return Err(refused(field, "the GPU resamples bilinearly").hint("take the bilinear filter"));
        }
        let (size, crop) = match size {
            Size::Squash { height, width } => ((height, width), Crop::Squash),
            Size::Center { short, height, width } => ((height, width), Crop::Center { short }),
            Size::Random { height, width, scale, ratio } => ((height, width), Crop::Random { scale, ratio }),
            Size::Keep | Size::Exact { .. } => {
                return Err(refused(field, "the GPU makes pictures of one size")
                    .hint("give a size, and a crop that is not exact"));
            }
        };
        let flip = if flip > 0.0 { Flip::Drawn(flip) } else { Flip::Never };
        let resize = Resize { channels: 3, size, crop, flip, output };
        Ok(Self { resize, required: field.required, ..Self::new(&field.name, size) })
    }
}

fn refused(field: &FieldOptions, why: &str) -> Error {
    Error::unsupported(format!("field {} can't be decoded on the GPU: {why}", field.name)).in_field(&field.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;
    use packhorse_read::{Axes, Normalize};

    #[test]
    fn pictures_stay_as_they_are_asked_for() {
        let random = View::random_crop(24).flip(0.5);
        let normalize = Normalize { mean: [0.1, 0.2, 0.3], std: [0.4, 0.5, 0.6], axes: Axes::Hwc };
        let kinds = [
            (FieldKind::Picture(View { size: Size::Squash { height: 9, width: 12 }, ..View::default() }), Crop::Squash),
            (
                FieldKind::Picture(View { size: Size::Center { short: 32, height: 9, width: 12 }, ..View::default() }),
                Crop::Center { short: 32 },
            ),
            (FieldKind::Normalized(random, normalize), Crop::Random { scale: (0.08, 1.0), ratio: (0.75, 4.0 / 3.0) }),
        ];
        for (kind, crop) in kinds {
            let field = FieldOptions::new("image", kind.clone()).from("jpg;png");
            let options = JpegOptions::of(&field).unwrap();
            assert_eq!((options.from.as_str(), options.into.as_str(), options.resize.crop), ("image", "image", crop));
            let normalized = matches!(kind, FieldKind::Normalized(..));
            assert_eq!(options.resize.output, if normalized { pixels(normalize) } else { Pixels::BYTES });
            assert_eq!(options.resize.flip, if normalized { Flip::Drawn(0.5) } else { Flip::Never });
            assert_eq!(options.resize.size, if normalized { (24, 24) } else { (9, 12) });
            let optional = JpegOptions::of(&FieldOptions { required: false, ..field });
            assert_eq!(optional.is_ok_and(|options| !options.required), !normalized);
        }
    }

    #[test]
    fn what_the_gpu_can_not_decode_says_why() {
        let exact = View { size: Size::Exact { height: 8, width: 8 }, ..View::default() };
        let bicubic = View { filter: Filter::Bicubic, ..View::random_crop(8) };
        let kinds = [
            (FieldKind::Bytes, "decodes pictures"),
            (FieldKind::Picture(View::default()), "pictures of one size"),
            (FieldKind::Picture(exact), "pictures of one size"),
            (FieldKind::Picture(bicubic), "bilinearly"),
        ];
        let fields: Vec<FieldOptions> = kinds.iter().map(|(kind, _)| FieldOptions::new("x", kind.clone())).collect();
        for (field, (_, why)) in fields.iter().zip(&kinds) {
            let error = JpegOptions::of(field).unwrap_err();
            assert!(error.kind() == Kind::Unsupported && error.to_string().contains(why), "{error}");
        }
        assert!(decodable(&fields).is_empty());
    }
}
