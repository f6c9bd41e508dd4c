//! Samples by the values of their scalar fields.

use crate::condition_classes::{classes_of, number_of_class};
use crate::condition_text::{self, Comparison, IN, IS_NULL, Literal, Logic};
use crate::dataset::no_field;
use crate::fields::{is_number_in_text, json_at};
use crate::{Access, Batch, BatchDecoder, Dataset, FieldKind, FieldOptions, HostSlab, LoaderOptions, OnError};
use packhorse_core::{DataType, Error, Event, Field, FieldType, LOGICAL, Observer, Result, json};
use packhorse_transform::moments;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// Whether the values of a field are JSON texts.
fn of_json(field: &Field) -> bool {
    field.metadata().get(LOGICAL).is_some_and(|said| said == "json")
}

/// What samples must meet, such as `cls == 3 and (json.width >= 256 or txt is null)`: comparisons joined by `and`, `or`, `not` and
/// parentheses. `not` binds most and `or` least.
///
/// A comparison is a field, one of `==`, `!=`, `<`, `<=`, `>` and `>=`, and a number, `true`, `false` or text in quotes; or a field, `in` or `not in`
/// and several of them (`cls in [3, 7]`); or a field and `is null` or `is not null`. The
/// field is a number, a Boolean or text; text that is compared with a number is read as one. A name after that of a JSON
/// field is a path in it, where names may have dots of their own. Text is compared byte by byte, unless it is a date and a time (`2024-05-01T08:00:00Z`) and the other one
/// is a date or a moment. Of labels (`cls`) and of columns with names of classes a text is such a name. Dates and timestamps are compared with text such as `'2024-05-01'` or `'2024-05-01 12:30:00.5'`, in UTC unless it says an offset. A field whose name has spaces is written in quotes.
///
/// As in SQL, a comparison with a field that is missing or null is neither met nor not met, not even by `!=` or `not`.
///
/// ```
/// # use packhorse_read::Condition;
/// let condition: Condition = r#"cls == 3 and not txt == "a dog""#.parse()?;
/// assert!("cls = 3".parse::<Condition>().is_err());
/// # Ok::<(), packhorse_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    comparisons: Vec<Comparison>,
    logic: Logic,
}

impl FromStr for Condition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        condition_text::parsed(text).map(|(comparisons, logic)| Self { comparisons, logic })
    }
}

/// A value of a sample.
#[derive(Clone, Debug)]
enum Scalar<'a> {
    Integer(i128),
    Float(f64),
    /// Compared as NumPy does: with the number in its own precision, so that a stored 0.1 is 0.1.
    Single(f32),
    Half(half::f16),
    Text(std::borrow::Cow<'a, str>),
}

impl Scalar<'_> {
    /// The start of a text.
    fn shown(&self) -> String {
        match self {
            Scalar::Text(text) => text.chars().take(40).collect(),
            number => format!("{number:?}"),
        }
    }
}

impl Comparison {
    /// Whether `value` meets it; `None` for text and a number.
    fn holds(&self, value: &Scalar<'_>) -> Option<bool> {
        self.literals.iter().try_fold(false, |met, literal| Some(self.compare(value, literal)? || met))
    }

    fn compare(&self, value: &Scalar<'_>, literal: &Literal) -> Option<bool> {
        let order = match (value, literal) {
            (Scalar::Integer(a), Literal::Integer(b)) => Some(a.cmp(b)),
            (Scalar::Integer(a), Literal::Float(b)) => with_float(*a, *b),
            (Scalar::Float(a), Literal::Integer(b)) => with_float(*b, *a).map(Ordering::reverse),
            (Scalar::Float(a), Literal::Float(b)) => a.partial_cmp(b),
            (Scalar::Single(a), Literal::Integer(b)) => with_float(*b, f64::from(*a)).map(Ordering::reverse),
            (Scalar::Single(a), Literal::Float(b)) => f64::from(*a).partial_cmp(&rounded(*b, f64::from(*b as f32))),
            (Scalar::Half(a), Literal::Integer(b)) => with_float(*b, f64::from(*a)).map(Ordering::reverse),
            (Scalar::Half(a), Literal::Float(b)) => {
                f64::from(*a).partial_cmp(&rounded(*b, f64::from(half::f16::from_f64(*b))))
            }
            (Scalar::Text(a), Literal::Text(b)) => {
                let moments = moments::written(a).and_then(|a| Some((a, moments::nanoseconds(b)?)));
                Some(moments.map_or_else(|| a.as_bytes().cmp(b.as_bytes()), |(a, b)| a.cmp(&b)))
            }
            _ => return None,
        };
        Some(match self.operator {
            EQUAL | IN => order == Some(Ordering::Equal),
            UNEQUAL => order != Some(Ordering::Equal),
            "<" => order == Some(Ordering::Less),
            "<=" => order.is_some_and(Ordering::is_le),
            ">" => order == Some(Ordering::Greater),
            _ => order.is_some_and(Ordering::is_ge),
        })
    }
}

/// Compares two numbers without rounding either.
fn with_float(a: i128, b: f64) -> Option<Ordering> {
    match b {
        b if b.is_nan() => None,
        b if b >= i128::MAX as f64 => Some(Ordering::Less),
        b if b < i128::MIN as f64 => Some(Ordering::Greater),
        b => Some(a.cmp(&(b.floor() as i128)).then(if b > b.floor() { Ordering::Less } else { Ordering::Equal })),
    }
}

/// A number in lower precision, or as it is where that would make it infinite or zero.
fn rounded(number: f64, lower: f64) -> f64 {
    if lower.is_finite() && (lower != 0.0 || number == 0.0) { lower } else { number }
}

/// Samples that are compared at a time.
const AT_ONCE: u32 = 1024;

impl Dataset {
    /// The samples that meet `condition`, in the order of the dataset. Reads only the fields that it names from
    /// tars, HDF5 and Parquet; of other formats whole rows.
    ///
    /// Errors: a field that the dataset does not have, a path in JSON that no sample has, a field that is not a number, a Boolean or text; a number
    /// compared with text.
    pub fn filter(&self, condition: &Condition) -> Result<Self> {
        self.subset(self.filter_numbers(condition)?)
    }

    /// The numbers of the samples that meet `condition`, ascending.
    ///
    /// Errors: those of [`filter`](Self::filter).
    pub fn filter_numbers(&self, condition: &Condition) -> Result<Vec<u64>> {
        let terms =
            condition.comparisons.iter().map(|comparison| Term::new(self, comparison)).collect::<Result<Vec<_>>>()?;
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let fields = fields_of(&terms);
        let mut options = LoaderOptions::new(AT_ONCE);
        // Fields beside the wanted ones are not worth reading.
        options.read = crate::ReadOptions { access: Access::Ranges { gap: 4 << 10 }, ..crate::ReadOptions::in_order() };
        let faults = Arc::new(Faults::default());
        (options.on_error, options.observer) = (OnError::Skip, Arc::clone(&faults) as _);
        let names: Vec<&str> = terms.iter().map(|term| term.field.as_str()).collect();
        let decoder = BatchDecoder::new(&self.select(&names)?, &fields, &options)?;
        let mut numbers = Vec::new();
        // Of each comparison, the samples that had no value to compare.
        let mut lacking = vec![0; terms.len()];
        let mut from = 0;
        while from < self.len() {
            let to = self.len().min(from.saturating_add(u64::from(AT_ONCE)));
            let batch = decoder.decode(&(from..to).collect::<Vec<_>>(), 0)?;
            if let Some(fault) = faults.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Err(fault);
            }
            for (row, number) in batch.numbers().iter().copied().enumerate() {
                let mut of_term = |at: usize| {
                    let (term, lacking) =
                        terms.get(at).zip(lacking.get_mut(at)).ok_or_else(|| Error::bug("no such comparison"))?;
                    let holds = term.holds(&batch, row)?;
                    *lacking += u64::from(holds.is_none());
                    Ok(holds)
                };
                let holds = condition.logic.holds(&mut of_term);
                if holds.map_err(|e| batch.key(row).map_or(e.clone(), |key| e.in_sample(key)))? == Some(true) {
                    numbers.push(number);
                }
            }
            from = to;
        }
        // Where others decide as well, a path may be wanted that only some datasets have.
        let needs_all = condition.logic.needs_all();
        let never = |(term, lacking): &(&Term, &u64)| needs_all && **lacking == self.len() && !term.path.is_empty();
        match terms.iter().zip(&lacking).find(never) {
            Some((term, _)) => {
                let message = format!("no sample has a value of {} in its field {}", term.path, term.field);
                Err(Error::config(message))
            }
            None => Ok(numbers),
        }
    }
}

/// The fields that the comparisons need, and whether each sample has them.
fn fields_of(terms: &[Term]) -> Vec<FieldOptions> {
    let mut fields: Vec<FieldOptions> = Vec::new();
    let mut push = |name: String, kind: &FieldKind, from: &str| match fields.iter_mut().find(|known| known.name == name)
    {
        // A JSON field may also be compared as a whole.
        Some(known) if *kind == FieldKind::Bytes => known.kind = FieldKind::Bytes,
        Some(_) => {}
        None => {
            let from = crate::Column(vec![from.to_owned()]);
            fields.push(FieldOptions { from, required: false, ..FieldOptions::new(name, kind.clone()) });
        }
    };
    for term in terms {
        if let Some(kind) = &term.kind {
            push(term.field.clone(), kind, &term.field);
        }
        push(presence(&term.field), &FieldKind::Present(None), &term.field);
    }
    fields
}

/// The name of the field that says which samples have `field`.
fn presence(field: &str) -> String {
    // No other field has a name with this character.
    format!("{field}\0present")
}

/// The first sample that can't be read.
#[derive(Default)]
struct Faults(Mutex<Option<Error>>);

impl Observer for Faults {
    fn event(&self, event: &Event<'_>) {
        if let Event::Skipped(error) = event {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| (*error).clone());
        }
    }
}

/// Operators that compare names of classes too.
const EQUAL: &str = "==";
const UNEQUAL: &str = "!=";

/// A comparison, and how its field is read.
struct Term {
    /// Of times with nanoseconds, where the condition has a text.
    comparison: Comparison,
    /// The field of the dataset.
    field: String,
    /// The path in the JSON of the field.
    path: String,
    /// The form of the value; `None` where only its presence counts.
    kind: Option<FieldKind>,
    /// Whether the field is bytes or text, not a number.
    is_text: bool,
    /// Whether values are names, unless they are numbers.
    is_name: bool,
    /// Whether each value is a JSON text.
    is_json: bool,
    /// Of times that are compared with a text, the nanoseconds in a tick.
    tick: Option<i128>,
}

impl Term {
    fn new(dataset: &Dataset, comparison: &Comparison) -> Result<Self> {
        let (schema, name, mut comparison) = (dataset.schema(), comparison.field.as_str(), comparison.clone());
        let field = |name: &str| schema.column_with_name(name).map(|(_, field)| field);
        if let Some(found) = field(name) {
            let mut tick = None;
            let classes = classes_of(dataset, found);
            if [EQUAL, UNEQUAL, IN].contains(&comparison.operator) {
                comparison.literals.iter_mut().try_for_each(|literal| number_of_class(literal, &classes))?;
            }
            for literal in &mut comparison.literals {
                if let (Literal::Text(text), Some(own)) = (&*literal, moments::tick(found)) {
                    let moment = moments::nanoseconds(text).ok_or_else(|| {
                        let message = format!("field {name} is a time, and {text:?} is none");
                        Error::config(message).hint("write times like 2024-05-01 or 2024-05-01 12:30:00")
                    })?;
                    (tick, *literal) = (Some(own), Literal::Integer(moment));
                }
            }
            let blob = matches!(FieldType::of(found)?, FieldType::Blob | FieldType::Text);
            // An array of bytes is not text.
            let is_text = blob && !name.ends_with("npy");
            let field = name.to_owned();
            // Without a class list a label in a tar is a number as text, or the name of a class.
            let has_text = comparison.literals.iter().any(|literal| matches!(literal, Literal::Text(_)));
            let is_name = is_text && has_text && classes.is_empty() && is_number_in_text(found);
            let kind = if is_name { FieldKind::Bytes } else { FieldKind::Auto };
            let kind = (comparison.operator != IS_NULL).then_some(kind);
            let is_json = of_json(found);
            return Ok(Self { comparison, field, path: String::new(), kind, is_text, is_name, is_json, tick });
        }
        let json = name.match_indices('.').find_map(|(at, _)| {
            let (before, path) = (name.get(..at)?, name.get(at + 1..)?);
            let is_json = before == "json" || before.ends_with(".json") || field(before).is_some_and(of_json);
            (is_json && !path.is_empty() && field(before).is_some()).then(|| (before.to_owned(), path.to_owned()))
        });
        let (field, path) = json.ok_or_else(|| no_field(name, schema))?;
        let kind = Some(FieldKind::Bytes);
        Ok(Self { comparison, field, path, kind, is_text: true, is_name: false, is_json: true, tick: None })
    }

    /// Whether the sample in a row of `batch` meets the comparison; `None` if it has no value to compare.
    fn holds(&self, batch: &Batch<HostSlab>, row: usize) -> Result<Option<bool>> {
        let is_present = batch.row(&presence(&self.field), row) == Some(&[1]);
        if self.comparison.operator == IS_NULL {
            return Ok(Some(!is_present || (!self.path.is_empty() && self.inside(self.text(batch, row)?)?.is_null())));
        }
        let Some(value) = (if is_present { self.value(batch, row)? } else { None }) else { return Ok(None) };
        self.comparison.holds(&value).map(Some).ok_or_else(|| {
            let name = &self.comparison.field;
            Error::config(match self.comparison.literals.first() {
                Some(Literal::Text(text)) => {
                    format!("field {name} is a number and can't be compared with the text {text:?}")
                }
                _ if [EQUAL, UNEQUAL, IN].contains(&self.comparison.operator) => {
                    format!("field {name} is text and can't be compared with a number; write the value in quotes")
                }
                _ => format!(
                    "field {name} holds the text {:?}, which is neither more nor less than a number",
                    value.shown()
                ),
            })
        })
    }

    /// The bytes of a ragged field in a row, which must be text.
    fn text<'b>(&self, batch: &'b Batch<HostSlab>, row: usize) -> Result<&'b str> {
        let bytes = batch.row(&self.field, row).ok_or_else(|| Error::bug(format!("a batch without {}", self.field)))?;
        let what = if self.is_text { "holds bytes that are not UTF-8" } else { "holds neither a number nor text" };
        std::str::from_utf8(bytes).ok().filter(|_| self.is_text).ok_or_else(|| self.no_scalar(what))
    }

    fn no_scalar(&self, what: &str) -> Error {
        Error::config(format!("field {} {what}: compare numbers, Booleans or text", self.field))
    }

    /// The value in a row; `None` where a JSON text has nothing or null at the path.
    fn value<'b>(&self, batch: &'b Batch<HostSlab>, row: usize) -> Result<Option<Scalar<'b>>> {
        let name = &self.field;
        let known = batch.layout().field(name);
        let (known, bytes) =
            known.zip(batch.row(name, row)).ok_or_else(|| Error::bug(format!("a batch without {name}")))?;
        if known.ragged {
            let text = self.text(batch, row)?;
            return match (self.path.is_empty(), self.comparison.literals.first()) {
                (true, Some(Literal::Text(_))) if self.is_name => {
                    let text = text.trim_ascii();
                    Ok(Some(parsed(text).unwrap_or(Scalar::Text(text.into()))))
                }
                (true, Some(Literal::Text(wanted))) => Ok(Some(Scalar::Text(self.plain(text, wanted)))),
                // Tars hold numbers as text.
                (true, _) => Ok(Some(parsed(text).unwrap_or(Scalar::Text(text.into())))),
                (false, _) => self.scalar(&self.inside(text)?),
            };
        }
        if known.shape.len() != 1 {
            return Err(self.no_scalar("holds arrays"));
        }
        let value = number(&known.data_type, bytes);
        if let (Some(tick), Some(Scalar::Integer(ticks))) = (self.tick, &value) {
            // NumPy's NaT names none.
            return Ok((*ticks != i128::from(i64::MIN)).then(|| Scalar::Integer(ticks * tick)));
        }
        value.map(Some).ok_or_else(|| self.no_scalar(&format!("is of type {}", known.data_type)))
    }

    /// The text that is compared with `wanted`: of a JSON column a string without JSON's quotes, unless these are wanted.
    fn plain<'b>(&self, text: &'b str, wanted: &str) -> Cow<'b, str> {
        let is_string = self.is_json && text.starts_with('"') && !wanted.starts_with('"');
        let string = if is_string { serde_json::from_str(text).ok() } else { None };
        string.map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The value at the path in a JSON text; null where there is none.
    fn inside(&self, text: &str) -> Result<serde_json::Value> {
        let value = json::parse_lossy(text.as_bytes());
        let value = value.map_err(|error| Error::content(format!("field {} is not JSON: {error}", self.field)))?;
        Ok(json_at(&value, &self.path).cloned().unwrap_or_default())
    }

    /// A value in JSON.
    fn scalar(&self, value: &serde_json::Value) -> Result<Option<Scalar<'static>>> {
        match value {
            serde_json::Value::Null => Ok(None),
            serde_json::Value::Bool(yes) => Ok(Some(Scalar::Integer(i128::from(*yes)))),
            value if json::odd_number(value).is_some() => Ok(json::odd_number(value).map(Scalar::Float)),
            serde_json::Value::String(text) => Ok(Some(Scalar::Text(text.clone().into()))),
            serde_json::Value::Number(number) => {
                let integer = number.as_i128().map(Scalar::Integer);
                let number = integer.or_else(|| number.as_f64().map(Scalar::Float));
                number.map(Some).ok_or_else(|| Error::bug("an odd number"))
            }
            _ => {
                let (name, path) = (&self.field, &self.path);
                Err(Error::config(format!("{path} of field {name} is neither a number nor text: compare parts of it")))
            }
        }
    }
}

/// The number in a text.
fn parsed(text: &str) -> Option<Scalar<'static>> {
    let text = text.trim();
    let integer = text.parse().ok().map(Scalar::Integer);
    integer.or_else(|| text.parse().ok().map(Scalar::Float))
}

/// A little-endian number; `None` for another type.
fn number(data_type: &DataType, bytes: &[u8]) -> Option<Scalar<'static>> {
    macro_rules! integer {
        ($type:ty) => {
            Some(Scalar::Integer(<$type>::from_le_bytes(bytes.try_into().ok()?).into()))
        };
    }
    match data_type {
        DataType::Int8 => integer!(i8),
        DataType::Int16 => integer!(i16),
        DataType::Int32 => integer!(i32),
        DataType::Int64 => integer!(i64),
        DataType::UInt8 | DataType::Boolean => integer!(u8),
        DataType::UInt16 => integer!(u16),
        DataType::UInt32 => integer!(u32),
        DataType::UInt64 => integer!(u64),
        DataType::Float16 => Some(Scalar::Half(half::f16::from_le_bytes(bytes.try_into().ok()?))),
        DataType::Float32 => Some(Scalar::Single(f32::from_le_bytes(bytes.try_into().ok()?))),
        DataType::Float64 => Some(Scalar::Float(f64::from_le_bytes(bytes.try_into().ok()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparisons(text: &str) -> Vec<Comparison> {
        text.parse::<Condition>().unwrap().comparisons
    }

    fn one(text: &str) -> Comparison {
        let mut all = comparisons(text);
        assert_eq!(all.len(), 1);
        all.pop().unwrap()
    }

    #[test]
    fn one_of_several_values() {
        let all = comparisons(r#"cls in [1, -2.0,3] and txt in ("a, b", 'c]') and i in[7]"#);
        assert_eq!(all.iter().map(|all| all.literals.len()).collect::<Vec<_>>(), [3, 2, 1]);
        let [cls, txt, _] = &all[..] else { panic!("{all:?}") };
        for (number, wanted) in [(1, true), (-2, true), (3, true), (2, false)] {
            assert_eq!(cls.holds(&Scalar::Integer(number)), Some(wanted));
        }
        for (text, wanted) in [("a, b", true), ("c]", true), ("a", false)] {
            assert_eq!(txt.holds(&Scalar::Text(text.into())), Some(wanted));
        }
        assert_eq!((cls.holds(&Scalar::Text("1".into())), txt.holds(&Scalar::Integer(1))), (None, None));
    }

    #[test]
    fn numbers_are_compared_without_rounding() {
        let large = 1 << 53;
        for (text, value, wanted) in [
            ("i > 9007199254740992.5", Scalar::Integer(large + 1), true),
            ("i > 9007199254740992.5", Scalar::Integer(large), false),
            ("i == 9007199254740993.0", Scalar::Integer(large), false),
            ("i == 9007199254740993.0", Scalar::Integer(large + 1), true),
            ("i < 1e300", Scalar::Integer(i128::MAX), true),
            ("i > -1e300", Scalar::Integer(i128::MIN), true),
            ("i >= -2.5", Scalar::Integer(-2), true),
            ("i < -2.5", Scalar::Integer(-3), true),
            ("d == 9007199254740993", Scalar::Float(large as f64), false),
            ("d < 9007199254740993", Scalar::Float(large as f64), true),
            ("f == 1e39", Scalar::Single(f32::INFINITY), false),
            ("f > 1e39", Scalar::Single(f32::INFINITY), true),
            ("f == 1e-46", Scalar::Single(0.0), false),
            ("f == 0.0", Scalar::Single(0.0), true),
            ("h > 70000.5", Scalar::Half(half::f16::INFINITY), true),
            ("h == 70000.5", Scalar::Half(half::f16::INFINITY), false),
        ] {
            assert_eq!(one(text).holds(&value), Some(wanted), "{text} of {value:?}");
        }
    }

    #[test]
    fn values_are_compared() {
        let holds = |text: &str, value: Scalar<'_>| one(text).holds(&value);
        assert_eq!(holds("x <= 3", Scalar::Integer(3)), Some(true));
        assert_eq!(holds("x < 3.5", Scalar::Integer(3)), Some(true));
        assert_eq!(holds("x > 3", Scalar::Float(3.0)), Some(false));
        assert_eq!(holds("x != 3", Scalar::Float(f64::NAN)), Some(true));
        assert_eq!(holds("x >= 3", Scalar::Float(f64::NAN)), Some(false));
        assert_eq!(holds("x > 'a'", Scalar::Text("b".into())), Some(true));
        assert_eq!(holds("x > 'a'", Scalar::Integer(1)), None);
        assert_eq!(holds("x == 18446744073709551615", Scalar::Integer(u64::MAX.into())), Some(true));
        assert!(matches!(number(&DataType::Int16, &[0xff, 0xff]), Some(Scalar::Integer(-1))));
        assert!(
            matches!(number(&DataType::Float16, &[0, 0x3e]), Some(Scalar::Half(a)) if a == half::f16::from_f64(1.5))
        );
        for (text, wanted) in
            [("x == 0.1", true), ("x <= 0.1", true), ("x < 0.1", false), ("x > 0", true), ("x == 1", false)]
        {
            assert_eq!(holds(text, Scalar::Single(0.1)), Some(wanted), "{text}");
            assert_eq!(holds(text, Scalar::Half(half::f16::from_f64(0.1))), Some(wanted), "{text}");
        }
        assert!(number(&DataType::FixedSizeBinary(8), &[0; 8]).is_none());
        assert!(matches!(parsed(" 7\n"), Some(Scalar::Integer(7))) && matches!(parsed("1e3"), Some(Scalar::Float(_))));
        assert!(parsed("seven").is_none());
    }
}
