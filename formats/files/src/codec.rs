//! Decodes fields that WebDataset's naming convention makes numbers (`.cls`: decimal digits) or text (`.txt`,
//! `.json`: UTF-8). Text is not parsed any further.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BinaryViewArray, PrimitiveArray, StringViewArray};
use packhorse_core::{Codec, DataType, Error, Field, FieldType, Input, Limits, Result, Rows, Sample};
use std::sync::Arc;

/// Fields that WebDataset's decoders parse as decimal integers.
const DIGITS: [&str; 6] = ["cls", "cls2", "count", "id", "index", "inx"];

/// All fields that this codec decodes: [`DIGITS`] and text.
pub(crate) const FIELDS: &[&str] =
    &["cls", "cls2", "count", "id", "index", "inx", "json", "jsn", "text", "transcript", "txt"];

/// The one of [`DIGITS`] that is not a number with leading zeros.
const IDENTIFIER: &str = "id";

/// Appended to the name of a text field when the name is not one of [`FIELDS`], or one of [`DIGITS`].
const TEXT: &str = ".txt";

/// Longer fields are not parsed as integers.
const MOST_DIGITS: u64 = 64;

pub(crate) struct Plain {
    pub(crate) limits: Limits,
}

impl Codec for Plain {
    /// One column: `Int64` if the bytes are digits, otherwise text. `caption.txt` becomes `caption`; other
    /// fields keep their names.
    fn probe(&self, name: &str, input: &dyn Input) -> Result<Vec<Field>> {
        let short = is_digits(name) && input.len().is_some_and(|len| len <= MOST_DIGITS);
        let number = short && integer(name, &input.read_all(self.limits.header)?).is_some();
        let kind = if number { FieldType::Scalar(DataType::Int64) } else { FieldType::Text };
        let plain = name.strip_suffix(TEXT).filter(|_| !number && !name.starts_with('.')).unwrap_or(name);
        Ok(vec![kind.field(plain, false)])
    }

    fn decode(&self, name: &str, rows: &Rows, fields: &[Field]) -> Result<Vec<ArrayRef>> {
        fields.iter().map(|field| if is_int(field) { numbers(name, rows) } else { texts(name, rows) }).collect()
    }

    fn encoded(&self, field: &Field) -> Result<String> {
        let name = field.name();
        let text = FieldType::of(field)? == FieldType::Text;
        let extension = name.rsplit('.').next().unwrap_or_default();
        let known = FIELDS.iter().any(|known| known.eq_ignore_ascii_case(extension));
        match (text, known) {
            (true, true) => Ok(name.clone()),
            (true, false) => Ok(format!("{name}{TEXT}")),
            (false, _) if is_int(field) && is_digits(name) => Ok(name.clone()),
            _ => Err(Error::unsupported(format!("field {name} of type {}", field.data_type()))),
        }
    }

    /// Readers take `.id` for a number, so that text is `.id.txt`.
    fn encoded_column(&self, field: &Field) -> Result<String> {
        let name = self.encoded(field)?;
        let is_text = is_digits(&name) && !is_int(field);
        Ok(if is_text { format!("{name}{TEXT}") } else { name })
    }

    fn encode(&self, field: &Field, column: &ArrayRef) -> Result<BinaryViewArray> {
        if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
            return Ok(numbers.iter().map(|n| n.map(|n| n.to_string().into_bytes())).collect());
        }
        match column.as_string_view_opt() {
            Some(texts) => Ok(texts.iter().map(|text| text.map(str::as_bytes)).collect()),
            None => Err(Error::bug(format!("field {} is neither a number nor text", field.name()))),
        }
    }
}

fn is_digits(name: &str) -> bool {
    let name = name.rsplit('.').next().unwrap_or_default();
    DIGITS.iter().any(|digits| digits.eq_ignore_ascii_case(name))
}

fn is_int(field: &Field) -> bool {
    *field.data_type() == DataType::Int64
}

/// The integer that these digits are; `None` for an identifier with leading zeros.
fn integer(name: &str, bytes: &[u8]) -> Option<i64> {
    let digits = std::str::from_utf8(bytes).ok()?.trim();
    let is_padded = || digits.len() > 1 && digits.starts_with('0');
    if name.rsplit('.').next() == Some(IDENTIFIER) && is_padded() { None } else { digits.parse().ok() }
}

fn values<'r>(name: &'r str, rows: &'r Rows) -> impl Iterator<Item = (usize, Option<&'r [u8]>)> {
    (0..rows.num_rows()).map(move |row| (row, Sample::new(rows, row).and_then(|sample| sample.bytes(name))))
}

fn of_row(rows: &Rows, row: usize, name: &str, message: &str) -> Error {
    let error = Error::content(message).subject(name).in_field(name).hint("use `decode=never` to keep bytes");
    error.in_row_of(rows, row)
}

fn numbers(name: &str, rows: &Rows) -> Result<ArrayRef> {
    let number = |(row, bytes): (usize, Option<&[u8]>)| match bytes {
        None => Ok(None),
        Some(bytes) => integer(name, bytes).map(Some).ok_or_else(|| {
            let start = bytes.get(..bytes.len().min(40)).unwrap_or_default().escape_ascii();
            of_row(rows, row, name, &format!("is \"{start}\", but an integer in other samples"))
        }),
    };
    let numbers = values(name, rows).map(number).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(PrimitiveArray::<Int64Type>::from_iter(numbers)))
}

fn texts(name: &str, rows: &Rows) -> Result<ArrayRef> {
    let text = |(row, bytes): (usize, Option<&'_ [u8]>)| match bytes.map(|bytes| std::str::from_utf8(bytes)) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text.to_owned())),
        Some(Err(_)) => {
            let hint = "where text is wanted, convert the file first (iconv -f latin1 -t utf-8)";
            Err(of_row(rows, row, name, "is not UTF-8").hint(hint))
        }
    };
    let texts = values(name, rows).map(text).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(texts.iter().map(Option::as_deref).collect::<StringViewArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{KEY, MemoryInput, Schema};

    fn rows(name: &str, values: &[&[u8]]) -> Rows {
        let keys: Vec<String> = (0..values.len()).map(|i| format!("k{i}")).collect();
        let fields = vec![FieldType::Text.field(KEY, false), FieldType::Blob.field(name, false)];
        let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(keys));
        let bytes: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(values));
        Rows::try_new(Arc::new(Schema::new(fields)), vec![keys, bytes]).unwrap()
    }

    #[test]
    fn digits_are_numbers_and_come_back() {
        let codec = Plain { limits: Limits::default() };
        let fields = codec.probe("cls", &MemoryInput::new("a.cls", &b"17\n"[..])).unwrap();
        let arrays = codec.decode("cls", &rows("cls", &[b"3", b" -4 "]), &fields).unwrap();
        assert_eq!(arrays[0].as_primitive::<Int64Type>().values(), &[3, -4]);
        assert_eq!(codec.encode(&fields[0], &arrays[0]).unwrap().value(1), b"-4");
        let error = codec.decode("cls", &rows("cls", &[b"3", b"cat"]), &fields).unwrap_err();
        assert_eq!(error.sample(), Some("k1"));
    }

    #[test]
    fn words_are_text_and_bytes_an_error() {
        let codec = Plain { limits: Limits::default() };
        let fields = codec.probe("cls", &MemoryInput::new("a.cls", &b"cat"[..])).unwrap();
        assert_eq!(FieldType::of(&fields[0]).unwrap(), FieldType::Text);
        // As text it comes back, and readers don't take it for a number.
        assert_eq!(codec.encoded(&fields[0]).unwrap(), "cls");
        assert_eq!(codec.encoded_column(&fields[0]).unwrap(), "cls.txt");
        let fields = codec.probe("cls.txt", &MemoryInput::new("a.cls.txt", &b"7"[..])).unwrap();
        assert_eq!((fields[0].name().as_str(), FieldType::of(&fields[0]).unwrap()), ("cls", FieldType::Text));
        let kind = |bytes: &'static [u8]| codec.probe("id", &MemoryInput::new("a.id", bytes)).unwrap()[0].clone();
        assert_eq!(*kind(b"70").data_type(), DataType::Int64);
        assert_eq!(FieldType::of(&kind(b"007")).unwrap(), FieldType::Text);
        let fields = codec.probe("txt", &MemoryInput::new("a.txt", &b"1"[..])).unwrap();
        assert_eq!(codec.encoded(&fields[0]).unwrap(), "txt");
        assert!(codec.decode("txt", &rows("txt", &[b"\xff"]), &fields).is_err());
    }
}
