//! Fields of batches as Python describes them: tuples that `packhorse/_fields.py` makes.

use crate::error::Result;
use arrow_schema::DataType;
use packhorse::core::{Error, named_number};
use packhorse::gpu::kernels::{Blur, Erase, Jitter, Mix, Rotate};
use packhorse::gpu::transforms::{Colors, Finished, Targets, finished, finished_of_resident};
use packhorse::gpu::{Cuda, NvJpeg, decoded};
use packhorse::read::{Axes, FieldKind, FieldOptions, Normalize};
use packhorse::transform::image::{Filter, Size, View};
use pyo3::prelude::*;

/// `(name, from, kind, required, settings)`: the settings depend on the kind.
type Described<'py> = (String, String, String, bool, Bound<'py, PyAny>);

/// A part of each picture, at one size.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ViewSettings {
    crop: String,
    height: u32,
    width: u32,
    short: u32,
    scale: (f32, f32),
    ratio: (f32, f32),
    flip: f32,
    lane: u32,
}

/// How a picture becomes pixels.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PictureSettings {
    view: ViewSettings,
    filter: String,
    reduced: bool,
    normalize: Option<Normalization>,
    colors: Option<ColorSettings>,
    decode: String,
}

/// How a mask becomes numbers.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct MaskSettings {
    view: ViewSettings,
    dtype: String,
}

/// Mean, standard deviation, and whether channels come last.
type Normalization = ([f32; 3], [f32; 3], bool);

/// How colours change, and what a GPU does with them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ColorSettings {
    /// From, to, probability.
    rotate: [f32; 3],
    /// Brightness, contrast, saturation, hue, probability.
    jitter: [f32; 5],
    grayscale: f32,
    /// Kernel, sigmas, probability.
    blur: (u32, f32, f32, f32),
    erase: f32,
    /// Probability, and the alphas of mixup and cutmix.
    mix: (f32, f32, f32),
    /// The field of labels and the number of classes.
    targets: Option<(String, u32)>,
}

/// The fields of batches, and what a GPU does for them.
pub(crate) struct Asked {
    pub(crate) fields: Vec<FieldOptions>,
    /// How the colours of these fields change, by name.
    pub(crate) colors: Vec<(String, Colors)>,
    /// The fields whose pictures the GPU decodes.
    decoded: Vec<String>,
}

impl Asked {
    /// What these tuples describe.
    pub(crate) fn of(described: Vec<Described<'_>>) -> Result<Self> {
        let (mut colors_of, mut decoded) = (Vec::new(), Vec::new());
        for (name, _, _, _, settings) in described.iter().filter(|described| described.2 == "image") {
            let settings: PictureSettings = settings.extract()?;
            decoded.extend((settings.decode == "gpu").then(|| name.clone()));
            let Some(asked) = settings.colors else { continue };
            let ([brightness, contrast, saturation, hue, share], (probability, mixup, cutmix)) =
                (asked.jitter, asked.mix);
            let ([left, right, turned], (kernel, sharp, soft, blurred)) = (asked.rotate, asked.blur);
            let colors = Colors {
                rotate: Rotate { probability: turned, degrees: (left, right) },
                blur: Blur { sigma: (sharp, soft), ..Blur::new(kernel, blurred) },
                jitter: Jitter { probability: share, ..Jitter::new(brightness, contrast, saturation, hue) },
                grayscale: asked.grayscale,
                erase: Erase::new(asked.erase),
                mix: Mix { probability, mixup, cutmix },
                targets: asked.targets.map(|(from, classes)| Targets { into: from.clone(), from, classes }),
            };
            colors_of.push((name.clone(), colors));
        }
        Ok(Self { fields: described.into_iter().map(field).collect::<Result<_>>()?, colors: colors_of, decoded })
    }

    /// The fields to send to `gpu`, and what makes the wanted ones there.
    pub(crate) fn sent(&self, gpu: &Cuda) -> Result<Finished, Error> {
        if self.decoded.is_empty() {
            return finished(self.fields.clone(), &self.colors);
        }
        let library = NvJpeg::load(None)?;
        let (fields, mut steps) = decoded(gpu, &library, self.fields.clone(), &self.decoded, &self.colors)?;
        let (fields, others) = finished(fields, &self.colors)?;
        steps.extend(others);
        Ok((fields, steps))
    }

    /// The same of samples that a GPU keeps.
    pub(crate) fn kept(&self) -> Result<Finished, Error> {
        if let Some(name) = self.decoded.first() {
            let message = format!("field {name}: samples that the GPU keeps are decoded by the CPU, once");
            return Err(Error::unsupported(message).in_field(name).hint("leave decode out, or resident"));
        }
        finished_of_resident(self.fields.clone(), &self.colors)
    }
}

fn field((name, from, kind, required, settings): Described<'_>) -> Result<FieldOptions> {
    let kind = match kind.as_str() {
        "auto" => FieldKind::Auto,
        "bytes" => FieldKind::Bytes,
        "dense" => FieldKind::Dense,
        "ragged" => FieldKind::Ragged,
        "draws" => FieldKind::Draws,
        "present" => FieldKind::Present(settings.extract()?),
        "bits" => FieldKind::Bits,
        "number" => FieldKind::Number(number(&settings.extract::<String>()?)?),
        "json" => {
            let (path, dtype) = settings.extract::<(String, String)>()?;
            FieldKind::Json(path, number(&dtype)?)
        }
        "class" => {
            let (names, path) = settings.extract::<(Vec<String>, Option<String>)>()?;
            FieldKind::Class(names.into(), path)
        }
        "mask" => mask(settings.extract()?)?,
        _ => picture(settings.extract()?)?,
    };
    Ok(FieldOptions { required, ..FieldOptions::new(name, kind).from(&from) })
}

fn number(dtype: &str) -> Result<DataType, Error> {
    named_number(dtype).filter(|number| *number != DataType::Float16).ok_or_else(|| {
        let hint = "give int8 to int64, uint8 to uint64, float32 or float64";
        Error::config(format!("{dtype:?} is not a type of numbers")).hint(hint)
    })
}

fn mask(settings: MaskSettings) -> Result<FieldKind> {
    Ok(FieldKind::Mask(view(&settings.view), number(&settings.dtype)?))
}

fn view(settings: &ViewSettings) -> View {
    let ViewSettings { height, width, short, scale, ratio, flip, lane, .. } = *settings;
    View { size: size(&settings.crop, (height, width), short, scale, ratio), flip, lane, ..View::default() }
}

fn size(crop: &str, (height, width): (u32, u32), short: u32, scale: (f32, f32), ratio: (f32, f32)) -> Size {
    match crop {
        "keep" => Size::Keep,
        "exact" => Size::Exact { height, width },
        "squash" => Size::Squash { height, width },
        "center" => Size::Center { short, height, width },
        _ => Size::Random { height, width, scale, ratio },
    }
}

fn picture(settings: PictureSettings) -> Result<FieldKind> {
    let filter = if settings.filter == "bicubic" { Filter::Bicubic } else { Filter::Bilinear };
    let view = View { filter, reduced: settings.reduced, ..view(&settings.view) };
    match settings.normalize {
        None => Ok(FieldKind::Picture(view)),
        Some(normalize) => normalized(view, normalize),
    }
}

fn normalized(view: View, (mean, std, last): Normalization) -> Result<FieldKind> {
    let axes = if last { Axes::Hwc } else { Axes::Chw };
    Ok(FieldKind::Normalized(view, Normalize { mean, std, axes }))
}
