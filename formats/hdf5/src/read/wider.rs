//! Numbers of one field that have other types in other samples, as Python's writers make them (`0` in one, `0.5` in another).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, downcast_integer_array};
use packhorse_core::{DataType, Error, Result};
use std::sync::Arc;

/// `values` as numbers of the type `to`, which is [common](packhorse_core::common_number) to theirs and others.
///
/// Errors: `Content` for an integer that a float does not hold exactly.
pub(crate) fn widened(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if values.data_type() == to {
        return Ok(Arc::clone(values));
    }
    Ok(match to {
        DataType::Float32 => Arc::new(floats(values)?.unary::<_, Float32Type>(|value| value as f32)),
        DataType::Float64 => Arc::new(floats(values)?),
        DataType::Int16 => Arc::new(integers::<Int16Type>(values)?),
        DataType::Int32 => Arc::new(integers::<Int32Type>(values)?),
        DataType::Int64 => Arc::new(integers::<Int64Type>(values)?),
        DataType::UInt16 => Arc::new(integers::<UInt16Type>(values)?),
        DataType::UInt32 => Arc::new(integers::<UInt32Type>(values)?),
        DataType::UInt64 => Arc::new(integers::<UInt64Type>(values)?),
        other => return Err(Error::bug(format!("{} as {other}", values.data_type()))),
    })
}

fn integers<T: ArrowPrimitiveType>(values: &ArrayRef) -> Result<PrimitiveArray<T>>
where
    T::Native: TryFrom<i128>,
{
    let misfit = || Error::bug(format!("{} as {}", values.data_type(), T::DATA_TYPE));
    downcast_integer_array!(
        values => {
            let numbers = values.values().iter().map(|value| T::Native::try_from(i128::from(*value)).ok());
            Ok(PrimitiveArray::from_iter_values(numbers.collect::<Option<Vec<_>>>().ok_or_else(misfit)?))
        },
        _ => Err(misfit())
    )
}

fn floats(values: &ArrayRef) -> Result<PrimitiveArray<Float64Type>> {
    let exact = |value: i128| {
        let float = value as f64;
        let inexact = || {
            let message =
                format!("holds {value}, which floats of 64 bits do not hold exactly, and other samples hold floats");
            Error::content(message)
        };
        Some(float).filter(|float| *float as i128 == value).ok_or_else(inexact)
    };
    downcast_integer_array!(
        values => {
            let numbers = values.values().iter().map(|value| exact(i128::from(*value)));
            Ok(PrimitiveArray::from_iter_values(numbers.collect::<Result<Vec<_>>>()?))
        },
        DataType::Float16 => Ok(values.as_primitive::<Float16Type>().unary(f64::from)),
        DataType::Float32 => Ok(values.as_primitive::<Float32Type>().unary(f64::from)),
        DataType::Float64 => Ok(values.as_primitive::<Float64Type>().clone()),
        other => Err(Error::bug(format!("{other} as floats")))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float32Array, Int64Array, UInt8Array};

    #[test]
    fn numbers_stay_what_they_are() {
        let bytes: ArrayRef = Arc::new(UInt8Array::from(vec![0, 255]));
        assert_eq!(widened(&bytes, &DataType::Int16).unwrap().as_primitive::<Int16Type>().values(), &[0, 255]);
        assert_eq!(widened(&bytes, &DataType::Float32).unwrap().as_primitive::<Float32Type>().values(), &[0.0, 255.0]);
        let halves: ArrayRef = Arc::new(Float32Array::from(vec![0.5]));
        assert_eq!(widened(&halves, &DataType::Float64).unwrap().as_primitive::<Float64Type>().values(), &[0.5]);
        let large: ArrayRef = Arc::new(Int64Array::from(vec![1 << 53]));
        assert_eq!(
            widened(&large, &DataType::Float64).unwrap().as_primitive::<Float64Type>().values(),
            &[2f64.powi(53)]
        );
        let odd: ArrayRef = Arc::new(Int64Array::from(vec![(1 << 53) + 1]));
        assert!(widened(&odd, &DataType::Float64).unwrap_err().message().contains("9007199254740993"));
    }
}
