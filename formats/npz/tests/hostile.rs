//! Damaged files (cut short, bits flipped, false sizes) give an error or the same values.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use arrow_array::builder::{ListBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, FixedSizeListArray, Float32Array, Int64Array, ListArray, RecordBatch,
};
use arrow_buffer::OffsetBuffer;
use packhorse_core::{
    Codec, DataType, Error, Field, FieldType, Format, KEY, Kind, Limits, MemoryInput, Options, Result, Schema,
};
use packhorse_npz::Npz;
use std::io::Write;
use std::sync::Arc;

fn codec() -> Box<dyn Codec> {
    Npz.codec(&Options::new(), Limits::default()).unwrap()
}

fn tensor(shape: &[usize]) -> (Field, ArrayRef) {
    let field = FieldType::Tensor { element: DataType::Float32, shape: shape.to_vec() }.field("x", false);
    let DataType::FixedSizeList(item, size) = field.data_type().clone() else { unreachable!() };
    let values = Arc::new(Float32Array::from_iter_values((0..size).map(|i| i as f32 * 0.5)));
    (field, Arc::new(FixedSizeListArray::try_new_with_length(item, size, values, None, 1).unwrap()))
}

fn npy(shape: &[usize]) -> Vec<u8> {
    let (field, column) = tensor(shape);
    codec().encode(&field, &column).unwrap().value(0).to_vec()
}

/// An `.npy` file with this header and `zeros` bytes of data.
fn handmade(dict: &str, zeros: usize) -> Vec<u8> {
    let text = format!("{dict}\n");
    [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), &vec![0; zeros]].concat()
}

struct Zip {
    out: Vec<u8>,
    directory: Vec<u8>,
    members: u16,
}

impl Zip {
    fn new() -> Self {
        Self { out: Vec::new(), directory: Vec::new(), members: 0 }
    }

    fn add(mut self, name: &str, data: &[u8], method: u16) -> Self {
        let packed = match method {
            8 => {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            _ => data.to_vec(),
        };
        let mut crc = flate2::Crc::new();
        crc.update(data);
        let start = self.out.len() as u32;
        let mut both = [20u16, 0, method, 0, 0x21].map(u16::to_le_bytes).concat();
        both.extend([crc.sum(), packed.len() as u32, data.len() as u32].map(u32::to_le_bytes).concat());
        both.extend([name.len() as u16, 0].map(u16::to_le_bytes).concat());
        self.out.extend([&b"PK\x03\x04"[..], &both, name.as_bytes(), &packed].concat());
        self.directory.extend([&b"PK\x01\x02\x14\x00"[..], &both, &[0; 10], &start.to_le_bytes()].concat());
        self.directory.extend(name.as_bytes());
        self.members += 1;
        self
    }

    fn finish(self) -> Vec<u8> {
        let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
        end.extend([self.members, self.members].map(u16::to_le_bytes).concat());
        end.extend([self.directory.len() as u32, self.out.len() as u32].map(u32::to_le_bytes).concat());
        [self.out, self.directory, end, vec![0, 0]].concat()
    }
}

/// An archive of one stored member with all sizes and offsets in zip64 records.
fn zip64(name: &str, data: &[u8]) -> Vec<u8> {
    let sound = Zip::new().add(name, data, 0);
    let (mut out, at) = (sound.out, sound.directory.len() - name.len());
    let mut entry = sound.directory[..at].to_vec();
    // Sizes and offset are in the extra field.
    entry[20..28].fill(0xff);
    entry[42..46].fill(0xff);
    entry[30] = 28;
    entry.extend(name.as_bytes());
    entry.extend([1u16, 24].map(u16::to_le_bytes).concat());
    entry.extend([data.len() as u64, data.len() as u64, 0].map(u64::to_le_bytes).concat());
    let (start, size) = (out.len() as u64, entry.len() as u64);
    out.extend(entry);
    let end = out.len() as u64;
    out.extend([&b"PK\x06\x06"[..], &44u64.to_le_bytes(), &[45, 0, 45, 0], &[0; 8]].concat());
    out.extend([1, 1, size, start].map(u64::to_le_bytes).concat());
    out.extend([&b"PK\x06\x07\0\0\0\0"[..], &end.to_le_bytes(), &1u32.to_le_bytes()].concat());
    out.extend([&b"PK\x05\x06\0\0\0\0"[..], &[0xff; 12], &[0, 0]].concat());
    out
}

fn rows(name: &str, files: &[Option<&[u8]>]) -> RecordBatch {
    let fields = vec![Field::new(KEY, DataType::Utf8View, false), Field::new(name, DataType::BinaryView, true)];
    let keys: Vec<String> = (0..files.len()).map(|i| format!("s{i}")).collect();
    let keys: ArrayRef = Arc::new(arrow_array::StringViewArray::from_iter_values(keys));
    let blobs: ArrayRef = Arc::new(files.iter().copied().collect::<BinaryViewArray>());
    RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![keys, blobs]).unwrap()
}

/// Reads the file in every way; returns what the codec decodes.
fn read(name: &str, file: &[u8], fields: &[Field]) -> Result<Vec<ArrayRef>> {
    let input = MemoryInput::new(format!("a.{name}"), file.to_vec());
    let _ = codec().probe(name, &input);
    for split in ["false", "true"] {
        let source = Npz.source(&[("rows", split)].into_iter().collect(), Limits::default()).unwrap();
        let Ok(table) = source.open(Arc::new(&input)) else { continue };
        let _ = table.info();
        let _ = table.rows(0..u64::MAX).map(|blocks| blocks.map(|b| b.map(|b| b.num_rows())).collect::<Vec<_>>());
        let _ = table.rows(1..2).map(|blocks| blocks.count());
    }
    codec().decode(name, &rows(name, &[Some(file)]), fields)
}

fn sound() -> (Vec<u8>, Vec<Field>) {
    let file = Zip::new().add("x.npy", &npy(&[3, 2]), 0).add("y.npy", &npy(&[3]), 8).finish();
    let fields = codec().probe("npz", &MemoryInput::new("a.npz", file.clone())).unwrap();
    assert_eq!(fields.iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["x", "y"]);
    (file, fields)
}

#[test]
fn an_archive_cut_anywhere_is_an_error() {
    let (file, fields) = sound();
    read("npz", &file, &fields).unwrap();
    for cut in 0..file.len() {
        let error = read("npz", &file[..cut], &fields).unwrap_err();
        assert_eq!((error.kind(), error.sample()), (Kind::Content, Some("s0")), "{cut}: {error}");
    }
}

#[test]
fn a_flipped_bit_of_an_archive_is_an_error_or_harmless() {
    let (file, fields) = sound();
    let wanted = read("npz", &file, &fields).unwrap();
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(found) = read("npz", &flipped, &fields) {
            assert!(found.iter().zip(&wanted).all(|(a, b)| a.to_data() == b.to_data()), "bit {bit}");
        }
    }
}

#[test]
fn an_array_cut_or_flipped_anywhere_does_no_harm() {
    let file = npy(&[3, 2]);
    let fields = codec().probe("npy", &MemoryInput::new("a.npy", file.clone())).unwrap();
    for cut in 0..file.len() {
        assert_eq!(read("npy", &file[..cut], &fields).unwrap_err().kind(), Kind::Content, "{cut}");
    }
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let _ = read("npy", &flipped, &fields);
    }
    let more = [&file[..], b"x"].concat();
    assert!(read("npy", &more, &fields).unwrap_err().message().contains("1 bytes after its data"));
}

fn refusal(name: &str, file: Vec<u8>) -> Error {
    codec().probe(name, &MemoryInput::new(format!("a.{name}"), file)).unwrap_err()
}

#[test]
fn unsupported_arrays_are_refused_by_name() {
    let object = handmade("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 40);
    let long = handmade("{'descr': '<f16', 'fortran_order': False, 'shape': (2,), }", 32);
    let zip =
        |name: &str, data: &[u8], method| Zip::new().add("ok.npy", &npy(&[1]), 0).add(name, data, method).finish();
    for (error, kind, words) in [
        (refusal("npy", object.clone()), Kind::Unsupported, "array npy is a pickled object array"),
        (refusal("npz", zip("bad.npy", &object, 0)), Kind::Unsupported, "array bad is a pickled object array"),
        (refusal("npz", zip("bad.npy", &long, 8)), Kind::Unsupported, "long doubles (<f16)"),
        (
            refusal("npz", zip("bad.npy", &npy(&[1]), 14)),
            Kind::Unsupported,
            "array bad is compressed by zip's method 14 (LZMA)",
        ),
        (refusal("npz", zip("ok.npy", &npy(&[1]), 0)), Kind::Content, "holds the array ok twice"),
        (refusal("npz", npy(&[1])), Kind::Content, "is an .npy file"),
        (refusal("npy", zip("x.npy", b"", 0)), Kind::Content, "does not start with"),
        (refusal("jpg", npy(&[1])), Kind::Config, "not a NumPy file"),
    ] {
        assert!(error.kind() == kind && error.message().contains(words), "{words}: {error}");
        assert!(error.input().is_some());
    }
    let mut encrypted = zip("x.npy", &npy(&[1]), 0);
    let at = encrypted.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    encrypted[at + 8] |= 1;
    assert!(refusal("npz", encrypted).message().contains("array x is encrypted"));
}

#[test]
fn false_sizes_allocate_nothing() {
    for dict in [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000, 100000000), }",
        "{'descr': '<f8', 'fortran_order': True, 'shape': (1000000, 1000), }",
        "{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000, ), }",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000, ), }",
        "{'descr': [('a', '<f4', (0,))], 'fortran_order': False, 'shape': (1000000000000, ), }",
        "{'descr': '|V2147483647', 'fortran_order': False, 'shape': (1,), }",
    ] {
        for rows in [false, true] {
            let file = handmade(dict, 16);
            let source = Npz.source(&[("rows", rows.to_string())].into_iter().collect(), Limits::default()).unwrap();
            let input = MemoryInput::new("a.npy", file);
            let table = source.open(Arc::new(&input));
            let blocks = table.and_then(|table| table.rows(0..2)?.next().transpose());
            assert!(blocks.is_err(), "{dict}");
        }
    }
    let bomb = Zip::new().add("x.npy", &vec![0; 100_000], 8).finish();
    let mut lie = bomb;
    let at = lie.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    lie[at + 24..at + 28].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    assert!(refusal("npz", lie).message().contains("sizes contradict"));
}

#[test]
fn a_sample_that_does_not_fit_shows_both_types() {
    let (a, b) = (npy(&[3, 2]), npy(&[3, 4]));
    let fields = codec().probe("depth.npy", &MemoryInput::new("a.depth.npy", a.clone())).unwrap();
    assert_eq!(fields[0].name(), "depth");
    let error = codec().decode("depth.npy", &rows("depth.npy", &[Some(&a), Some(&b)]), &fields).unwrap_err();
    assert_eq!((error.kind(), error.sample()), (Kind::Content, Some("s1")));
    assert!(error.message().contains("is Float32[3,4], but the field depth holds Float32[3,2]"), "{error}");

    let ragged = [FieldType::Ragged { element: DataType::Float32, rank: 2 }.field("depth", true)];
    let found = codec().decode("depth.npy", &rows("depth.npy", &[Some(&a), None, Some(&b)]), &ragged).unwrap();
    let parts = found[0].as_struct();
    assert_eq!((parts.len(), parts.null_count()), (3, 1));
    assert_eq!(parts.column(0).as_list::<i32>().offsets().as_ref(), [0, 6, 6, 18]);
    let files = codec().encode(&ragged[0], &found[0]).unwrap();
    assert_eq!((files.value(0), files.is_null(1), files.value(2)), (&a[..], true, &b[..]));
}

#[test]
fn missing_arrays_are_null_in_nullable_fields() {
    let file = Zip::new().add("x.npy", &npy(&[2]), 0).finish();
    let other = Zip::new().add("z.npy", &npy(&[2]), 0).finish();
    let kind = FieldType::Tensor { element: DataType::Float32, shape: vec![2] };
    let both = rows("view.npz", &[Some(&file), Some(&other)]);
    let found = codec().decode("view.npz", &both, &[kind.field("view.x", true)]).unwrap();
    assert!(found[0].is_valid(0) && found[0].is_null(1));
    let error = codec().decode("view.npz", &both, &[kind.field("view.x", false)]).unwrap_err();
    assert_eq!((error.kind(), error.sample()), (Kind::Content, Some("s1")));
    assert!(error.message().contains("no array for the field view.x (Float32[2])"), "{error}");
}

#[test]
fn elements_of_a_null_array_mean_nothing() {
    let (field, full) = tensor(&[2]);
    let DataType::FixedSizeList(item, size) = field.data_type().clone() else { unreachable!() };
    let values: ArrayRef = Arc::new(Float32Array::from(vec![Some(0.0), Some(0.5), None, None]));
    let nulls = |valid: &[bool]| Some(arrow_buffer::NullBuffer::from(valid.to_vec()));
    let list = |valid: &[bool]| -> ArrayRef {
        let item = Arc::new(item.as_ref().clone().with_nullable(true));
        Arc::new(FixedSizeListArray::try_new(item, size, Arc::clone(&values), nulls(valid)).unwrap())
    };
    let files = codec().encode(&field, &list(&[true, false])).unwrap();
    assert_eq!((files.value(0), files.is_null(1)), (codec().encode(&field, &full).unwrap().value(0), true));
    let error = codec().encode(&field, &list(&[true, true])).unwrap_err();
    assert!(error.message().contains("null elements"), "{error}");
}

#[test]
fn lists_are_arrays_of_their_own_length() {
    let field = FieldType::List { element: DataType::Int64, depth: 1 }.field("hits", false);
    let DataType::List(item) = field.data_type().clone() else { unreachable!() };
    let offsets = arrow_buffer::OffsetBuffer::from_lengths([2, 0, 3]);
    let values = Arc::new(Int64Array::from_iter_values(0..5));
    let lists: ArrayRef = Arc::new(arrow_array::ListArray::try_new(item, offsets, values, None).unwrap());
    assert_eq!(codec().encoded(&field).unwrap(), "hits.npy");
    let files = codec().encode(&field, &lists.slice(1, 2)).unwrap();
    let files: Vec<Option<&[u8]>> = files.iter().collect();
    let fields = codec().probe("hits.npy", &MemoryInput::new("hits.npy", files[1].unwrap().to_vec())).unwrap();
    assert_eq!(FieldType::of(&fields[0]).unwrap().to_string(), "Int64[3]");
    let found = codec().decode("hits.npy", &rows("hits.npy", &files), &[field]).unwrap();
    let found = found[0].as_list::<i32>();
    assert_eq!(
        (found.value_length(0), found.value(1).as_primitive::<Int64Type>().values().as_ref()),
        (0, &[2, 3, 4][..])
    );
}

#[test]
fn other_types_are_not_encoded() {
    for kind in [FieldType::Text, FieldType::Blob] {
        let error = codec().encoded(&kind.field("x", false)).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.message().contains("field x of type"), "{error}");
    }
    let npy = FieldType::Scalar(DataType::Int8).field("npy", false);
    assert_eq!(codec().encoded(&npy).unwrap(), "npy");
}

#[test]
fn rows_need_equal_first_dimensions() {
    let file =
        Zip::new().add("x.npy", &npy(&[3, 2]), 0).add("y.npy", &npy(&[2]), 8).add("z.npy", &npy(&[3]), 8).finish();
    let input = MemoryInput::new("a.npz", file);
    let options = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Options>();
    let source = |pairs: &[(&str, &str)]| Npz.source(&options(pairs), Limits::default()).unwrap();
    let error = source(&[("rows", "true")]).open(Arc::new(&input)).and_then(|table| table.info()).unwrap_err();
    assert!(error.message().contains("array y has 2 rows, but x has 3"), "{error}");
    let chosen = source(&[("rows", "true"), ("arrays", "x,z")]);
    assert_eq!(chosen.open(Arc::new(&input)).unwrap().info().unwrap().items, 3);
    let found: Vec<RecordBatch> =
        chosen.open(Arc::new(&input)).unwrap().rows(1..3).unwrap().map(|b| b.unwrap()).collect();
    assert_eq!(found[0].column(1).as_primitive::<Float32Type>().values().as_ref(), [0.5, 1.0]);
    let error = source(&[("arrays", "w")]).open(Arc::new(&input)).and_then(|table| table.info()).unwrap_err();
    assert!(error.message().contains("has no array w"), "{error}");
    assert_eq!(Npz.source(&options(&[("rows", "yes")]), Limits::default()).err().unwrap().kind(), Kind::Config);
}

#[test]
fn sizes_of_64_bits_are_read() {
    let file = zip64("x.npy", &npy(&[3, 2]));
    let fields = codec().probe("npz", &MemoryInput::new("a.npz", file.clone())).unwrap();
    let found = read("npz", &file, &fields).unwrap();
    assert_eq!(found[0].to_data(), tensor(&[3, 2]).1.to_data());
    for cut in 0..file.len() {
        assert_eq!(read("npz", &file[..cut], &fields).unwrap_err().kind(), Kind::Content, "{cut}");
    }
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(again) = read("npz", &flipped, &fields) {
            assert_eq!(again[0].to_data(), found[0].to_data(), "bit {bit}");
        }
    }
}

#[test]
fn directories_names_and_comments_may_be_long() {
    let (x, long) = (npy(&[3, 2]), "n".repeat(5000));
    let many = (0..20_000).fold(Zip::new().add("x.npy", &x, 0), |zip, i| zip.add(&format!("{i:010}.npy"), &x, 0));
    assert!(many.directory.len() > 1 << 20);
    let commented = |len: u16| {
        let mut file = zip64("x.npy", &x);
        let at = file.len() - 2;
        file[at..].copy_from_slice(&len.to_le_bytes());
        [file, vec![b'c'; len.into()]].concat()
    };
    let named = Zip::new().add(&format!("{long}.npy"), &x, 0).finish();
    let files = [4050, 4055, 4074, 4075].map(commented).into_iter().map(|file| (file, "x"));
    for (file, name) in files.chain([(many.finish(), "x"), (named, long.as_str())]) {
        let source = Npz.source(&[("arrays", name)].into_iter().collect(), Limits::default()).unwrap();
        let table = source.open(Arc::new(MemoryInput::new("a.npz", file))).unwrap();
        assert_eq!(table.info().unwrap().schema.field(0).name(), name);
        assert_eq!(table.rows(0..1).unwrap().next().unwrap().unwrap().num_rows(), 1);
    }
}

#[test]
fn a_row_may_not_be_larger_than_a_value_and_few_large_ones_are_read_at_once() {
    let input = MemoryInput::new("a.npy", npy(&[8, 1 << 18]));
    let rows = |blob: u64| {
        let limits = Limits { blob, ..Limits::default() };
        let source = Npz.source(&[("rows", "true")].into_iter().collect(), limits).unwrap();
        let table = source.open(Arc::new(&input))?;
        table.rows(0..8)?.map(|rows| rows.map(|rows| rows.num_rows())).sum::<Result<usize>>()
    };
    assert_eq!(rows(1 << 20).unwrap(), 8);
    let error = rows((1 << 20) - 1).unwrap_err();
    assert!(error.kind() == Kind::Limit && error.hints().is_some_and(|hint| hint.contains("`memory=")), "{error}");
}

#[test]
fn damage_is_found_row_by_row_too() {
    for (method, shape) in [(0, vec![800_000, 3]), (8, vec![800_000, 3]), (0, vec![7]), (8, vec![7])] {
        let file = Zip::new().add("x.npy", &npy(&shape), method).finish();
        for rows in ["true", "false"] {
            let source = Npz.source(&[("rows", rows)].into_iter().collect(), Limits::default()).unwrap();
            let whole = |file: &[u8]| {
                let input = MemoryInput::new("a.npz", file.to_vec());
                source.open(Arc::new(&input))?.rows(0..u64::MAX)?.collect::<Result<Vec<_>>>()
            };
            whole(&file).unwrap();
            let mut flipped = file.clone();
            // Without the local header, the directory and its end record.
            let packed = file.len() - 35 - 51 - 22;
            let at = 35 + if method == 0 { packed / 2 + 64 } else { packed * 3 / 4 };
            flipped[at] ^= 4;
            let error = whole(&flipped).unwrap_err();
            assert!(error.kind() == Kind::Content && error.message().starts_with("array x "), "{error}");
        }
    }
}

#[test]
fn an_array_is_not_taken_for_a_member_of_another() {
    let object = handmade("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 40);
    let file = Zip::new().add("x.npy", &object, 0).add("x.y.npy", &npy(&[2]), 0).finish();
    let field = FieldType::Tensor { element: DataType::Float32, shape: vec![2] }.field("x.y", false);
    assert_eq!(codec().decode("npz", &rows("npz", &[Some(&file)]), &[field]).unwrap()[0].len(), 1);
    let chosen = Npz.codec(&[("arrays", "x.y")].into_iter().collect(), Limits::default()).unwrap();
    assert_eq!(chosen.probe("npz", &MemoryInput::new("a.npz", file)).unwrap().len(), 1);
}

#[test]
fn other_members_are_reported_and_archives_without_arrays_are_refused() {
    let with = Zip::new().add("x.npy", &npy(&[2]), 0).add("folder/", b"", 0).add("README.txt", b"hello", 8).finish();
    let source = |rows| {
        let mut options = Options::new();
        options.set("rows", rows);
        Npz.source(&options, Limits::default()).unwrap()
    };
    for rows in ["false", "true"] {
        let info = source(rows).open(Arc::new(&MemoryInput::new("a.npz", with.clone()))).unwrap().info().unwrap();
        let omitted: Vec<_> = info.omitted.iter().map(|omission| omission.field.as_str()).collect();
        assert_eq!(omitted, ["README.txt"]);
    }
    let error = codec().probe("npz", &MemoryInput::new("a.npz", with)).unwrap_err();
    assert!(error.kind() == Kind::Content && error.message().contains("README.txt"), "{error}");
    for without in [Zip::new().finish(), Zip::new().add("README.txt", b"hello", 0).finish()] {
        let input = MemoryInput::new("a.npz", without);
        for error in [
            codec().probe("npz", &input).unwrap_err(),
            source("false").open(Arc::new(&input)).and_then(|table| table.info()).unwrap_err(),
        ] {
            assert!(error.kind() == Kind::Content && error.message().contains("holds no array"), "{error}");
        }
    }
}

#[test]
fn lists_of_lists_are_arrays_if_they_are_rectangular() {
    let lists = |rows: &[&[&[f32]]]| -> ArrayRef {
        let values = Float32Array::from_iter_values(
            rows.iter().flat_map(|row| row.iter()).flat_map(|list| list.iter().copied()),
        );
        let inner = OffsetBuffer::from_lengths(rows.iter().flat_map(|row| row.iter()).map(|list| list.len()));
        let outer = OffsetBuffer::from_lengths(rows.iter().map(|row| row.len()));
        let item = |data_type: DataType| Arc::new(Field::new("item", data_type, false));
        let inner = ListArray::new(item(DataType::Float32), inner, Arc::new(values), None);
        Arc::new(ListArray::new(item(inner.data_type().clone()), outer, Arc::new(inner), None))
    };
    let field = FieldType::List { element: DataType::Float32, depth: 2 }.field("boxes", false);
    let column = lists(&[&[&[1.0, 2.0], &[3.0, 4.0], &[5.0, 6.0]], &[], &[&[7.0, 8.0]]]);
    let files = codec().encode(&field, &column).unwrap();
    let shapes = ["(3, 2)", "(0, 0)", "(1, 2)"];
    for (row, (shape, values)) in
        shapes.iter().zip([&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0][..], &[], &[7.0, 8.0]]).enumerate()
    {
        let file = files.value(row);
        let header = String::from_utf8_lossy(&file[10..file.len() - 4 * values.len()]).into_owned();
        assert!(header.contains(&format!("'shape': {shape}")), "{header}");
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(file.ends_with(&bytes));
    }
    let error = codec().encode(&field, &lists(&[&[&[1.0]], &[&[1.0, 2.0], &[3.0]]])).unwrap_err();
    assert!(error.kind() == Kind::Content && error.to_string().contains("lists of 2 and of 1 values"), "{error}");
}

#[test]
fn texts_that_would_be_padding_are_refused() {
    let texts = |long: usize, count: usize| {
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        lists.values().append_value("x".repeat(long));
        (1..count).for_each(|_| lists.values().append_value("short"));
        lists.append(true);
        let column: ArrayRef = Arc::new(lists.finish());
        let field = FieldType::List { element: DataType::Utf8View, depth: 1 }.field("files", false);
        codec().encode(&field, &column)
    };
    // 400 MB for 500 KB; as much padding, of little; long texts alone.
    let error = texts(500_000, 200).unwrap_err();
    assert!(error.kind() == Kind::Content && error.to_string().contains("<U500000"), "{error}");
    assert!(texts(10_000, 200).is_ok() && texts(10_000_000, 1).is_ok());
}
