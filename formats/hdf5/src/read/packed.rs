//! Packed values of the [CF conventions](https://cfconventions.org/cf-conventions/cf-conventions.html#packed-data).
//!
//! A value `v` stands for `v * scale_factor + add_offset`, and is missing if it equals `_FillValue` or `missing_value`.
//! Unpacked values are floats, NaN if missing, of the width that xarray (2026.9) chooses: the width of the two
//! attributes if both have the same; else 8 bytes with an offset, the width of the scale without one. With fill values
//! only, 4 bytes for integers of up to 2 bytes and for 4-byte floats. Each step is rounded to that width, as in xarray.

use super::attribute::{Attribute, Number, find, numbers, text_attribute};
use super::cf_time::{MICROSECONDS, TimeUnit};
use super::file::H5File;
use super::object_header::ObjectHeader;
use crate::datatype::Datatype;
use packhorse_core::Result;
use serde_json::{Map, Value};

/// The attributes of a variable that describe its values.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// `_FillValue` and `missing_value`.
    fills: Vec<(&'static str, Attribute)>,
    scale: Option<Attribute>,
    offset: Option<Attribute>,
    /// `_Unsigned`: overrides the signedness of integers.
    unsigned: Option<bool>,
    units: Vec<(&'static str, String)>,
    /// Whether xarray marks the values as Booleans, which NetCDF lacks.
    pub(crate) boolean: bool,
}

/// Unpacks values.
#[derive(Clone, Debug)]
pub(crate) struct Unpacker {
    datatype: Datatype,
    fills: Vec<Number>,
    scale: Option<f64>,
    offset: Option<f64>,
    /// Bytes per unpacked float.
    width: u32,
    /// What the values stand for, if they are decoded to times.
    time: Option<TimeUnit>,
}

impl Packing {
    pub(crate) fn of(file: &H5File<'_>, object: &ObjectHeader) -> Result<Self> {
        let mut packing = Self {
            scale: find(file, object, "scale_factor")?.filter(|scale| !scale.numbers().is_empty()),
            offset: find(file, object, "add_offset")?.filter(|offset| !offset.numbers().is_empty()),
            boolean: text_attribute(file, object, "dtype")?.as_deref() == Some("bool"),
            ..Self::default()
        };
        packing.unsigned = text_attribute(file, object, "_Unsigned")?.and_then(|text| text.parse().ok());
        for name in ["_FillValue", "missing_value"] {
            let found = find(file, object, name)?.filter(|found| !found.numbers().is_empty());
            packing.fills.extend(found.map(|found| (name, found)));
        }
        for name in ["units", "calendar"] {
            packing.units.extend(text_attribute(file, object, name)?.map(|text| (name, text)));
        }
        Ok(packing)
    }

    /// The attributes that describe the values, as JSON; `None` if there are none.
    pub(crate) fn notes(&self, unpacked: bool) -> Option<String> {
        let mut notes: Map<String, Value> =
            self.units.iter().map(|(name, text)| ((*name).to_owned(), Value::from(text.as_str()))).collect();
        if !unpacked {
            let packing = [("scale_factor", &self.scale), ("add_offset", &self.offset)];
            let packing = packing.into_iter().filter_map(|(name, found)| Some((name, found.as_ref()?)));
            for (name, found) in packing.chain(self.fills.iter().map(|(name, found)| (*name, found))) {
                let mut values: Vec<Value> = found.numbers().into_iter().map(json).collect();
                let value = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
                notes.insert(name.to_owned(), value);
            }
            notes.extend(self.unsigned.map(|unsigned| ("_Unsigned".to_owned(), Value::from(unsigned))));
        }
        (!notes.is_empty()).then(|| Value::Object(notes).to_string())
    }

    /// The integers as `_Unsigned` says that they are, where that is not their type.
    pub(crate) fn other_sign(&self, datatype: &Datatype) -> Option<Datatype> {
        match (datatype, self.unsigned) {
            (Datatype::Integer { size, signed, big }, Some(unsigned)) if *signed == unsigned => {
                Some(Datatype::Integer { size: *size, signed: !unsigned, big: *big })
            }
            _ => None,
        }
    }

    /// The unpacker for values of `datatype`; `None` if they are not packed.
    pub(crate) fn unpacker(&self, datatype: &Datatype) -> Option<Unpacker> {
        let is_packed = self.scale.is_some() || self.offset.is_some() || !self.fills.is_empty();
        self.reader(datatype).filter(|_| is_packed)
    }

    /// The same, also if they are not packed; `None` if they are not numbers.
    fn reader(&self, datatype: &Datatype) -> Option<Unpacker> {
        let datatype = match (datatype, self.unsigned) {
            (Datatype::Integer { size, .. }, Some(unsigned)) => {
                Datatype::Integer { size: *size, signed: !unsigned, big: false }
            }
            (Datatype::Integer { .. } | Datatype::Float { size: 4 | 8, .. }, _) => datatype.clone(),
            _ => return None,
        };
        let first = |found: &Option<Attribute>| found.as_ref()?.numbers().first().copied().map(Number::value);
        let (scale, offset, width) = (first(&self.scale), first(&self.offset), self.width(&datatype));
        let all = self.fills.iter().flat_map(|(_, found)| found.numbers());
        let fills = all.map(|fill| same_bits(fill, &datatype)).collect();
        Some(Unpacker { datatype, fills, scale, offset, width, time: None })
    }

    /// The decoder of the times that values of `datatype` stand for; `None` if they are other numbers.
    ///
    /// Errors: `Unsupported` for a calendar that NumPy's times lack.
    pub(crate) fn times(&self, datatype: &Datatype) -> Result<Option<Unpacker>> {
        let text = |name| self.units.iter().find(|(other, _)| *other == name).map(|(_, text)| text.as_str());
        let time = text("units").map(|units| TimeUnit::of(units, text("calendar"))).transpose()?.flatten();
        let Some((time, mut reader)) = time.and_then(|time| Some((time, self.reader(datatype)?))) else {
            return Ok(None);
        };
        if reader.fills.is_empty() {
            reader.fills.extend(default_fill(&reader.datatype));
        }
        Ok(Some(Unpacker { time: Some(time), ..reader }))
    }

    /// Whether the values are times.
    pub(crate) fn is_time(&self) -> bool {
        self.units.iter().any(|(name, text)| *name == "units" && text.contains(" since "))
    }

    /// Gives it the units of `other`, if it has none.
    pub(crate) fn inherit(&mut self, other: &Self) {
        if !self.units.iter().any(|(name, _)| *name == "units") {
            self.units.clone_from(&other.units);
        }
    }

    /// Bytes per float for unpacked values of `datatype`.
    fn width(&self, datatype: &Datatype) -> u32 {
        let (integer, size) = (matches!(datatype, Datatype::Integer { .. }), datatype.size());
        let float = |found: &Attribute| match found.datatype {
            Datatype::Float { size: 4, .. } => 4,
            _ => 8,
        };
        match (&self.scale, &self.offset) {
            (Some(scale), Some(offset)) if float(scale) == 4 && float(offset) == 4 => {
                if integer && size == 4 {
                    8
                } else {
                    4
                }
            }
            (_, Some(_)) => 8,
            (Some(scale), None) => float(scale),
            (None, None) if integer => {
                if size <= 2 {
                    4
                } else {
                    8
                }
            }
            (None, None) => size,
        }
    }
}

impl Unpacker {
    /// The datatype of unpacked values.
    pub(crate) fn becomes(&self) -> Datatype {
        if self.time.is_some() {
            return Datatype::Opaque { size: 8, numpy: Some(MICROSECONDS.to_owned()) };
        }
        Datatype::Float { size: self.width, big: false }
    }

    /// Unpacks little-endian elements. `Content` for times beyond the calendar.
    pub(crate) fn apply(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let values = numbers(&self.datatype, bytes).into_iter();
        if let Some(time) = self.time {
            let is_packed = self.scale.is_some() || self.offset.is_some();
            let number = |value| if is_packed { Number::Float(self.one(value)) } else { value };
            let mut times = Vec::with_capacity(bytes.len());
            for value in values {
                times.extend(time.time(number(value), self.is_fill(value))?.to_le_bytes());
            }
            return Ok(times);
        }
        let values = values.map(|value| self.one(value));
        Ok(match self.width {
            4 => values.flat_map(|value| (value as f32).to_le_bytes()).collect(),
            _ => values.flat_map(f64::to_le_bytes).collect(),
        })
    }

    fn is_fill(&self, value: Number) -> bool {
        self.fills.iter().any(|fill| equal(*fill, value))
    }

    fn one(&self, value: Number) -> f64 {
        if self.is_fill(value) {
            return f64::NAN;
        }
        // Rounding an f64 product or sum of two f32 to f32 equals the f32 operation.
        let round = |value: f64| if self.width == 4 { f64::from(value as f32) } else { value };
        let mut value = round(value.value());
        if let Some(scale) = self.scale {
            value = round(value * scale);
        }
        self.offset.map_or(value, |offset| round(value + offset))
    }
}

/// What netCDF's library fills records with that are not written, of types with values to spare.
fn default_fill(datatype: &Datatype) -> Option<Number> {
    Some(match datatype {
        Datatype::Integer { size: 4, signed: true, .. } => Number::Integer(-2_147_483_647),
        Datatype::Integer { size: 4, .. } => Number::Integer(4_294_967_295),
        Datatype::Integer { size: 8, signed: true, .. } => Number::Integer(-9_223_372_036_854_775_806),
        Datatype::Integer { size: 8, .. } => Number::Integer(18_446_744_073_709_551_614),
        Datatype::Float { .. } => Number::Float(f64::from(9.969_21e36_f32)),
        _ => return None,
    })
}

fn equal(a: Number, b: Number) -> bool {
    match (a, b) {
        (Number::Integer(a), Number::Integer(b)) => a == b,
        _ => a.value() == b.value(),
    }
}

/// A fill value reinterpreted with the signedness of `datatype`.
fn same_bits(fill: Number, datatype: &Datatype) -> Number {
    let (Number::Integer(value), Datatype::Integer { size: size @ 1..=8, signed, .. }) = (fill, datatype) else {
        return fill;
    };
    let all = 1i128 << (8 * size);
    Number::Integer(match (*signed, value) {
        (false, value) if value < 0 => value + all,
        (true, value) if value >= all / 2 => value - all,
        _ => value,
    })
}

fn json(number: Number) -> Value {
    match number {
        Number::Integer(value) => match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => Value::from(value),
            (_, Ok(value)) => Value::from(value),
            _ => Value::from(value.to_string()),
        },
        Number::Float(value) if value.is_finite() => Value::from(value),
        Number::Float(value) => Value::from(value.to_string()),
    }
}
