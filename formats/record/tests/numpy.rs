//! Records have the values that `numpy.fromfile` reads.
//!
//! `PACKHORSE_PYTHON` is a Python with NumPy. If it is unset, the test is skipped.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use packhorse_core::{Format, Limits, MemoryInput, bytes_of};
use packhorse_record::Record;
use packhorse_testkit::external::python;
use std::process::Command;
use std::sync::Arc;

/// Writes random records, and each member as NumPy reads it to a file of its own, little-endian.
const SCRIPT: &str = r#"
import sys, numpy as np
folder, skip, members = sys.argv[1], int(sys.argv[2]), [m.split(":") for m in sys.argv[3:]]
dtype = np.dtype([(name, kind, eval(shape)) for kind, shape, name in members])
raw = np.random.default_rng(3).integers(0, 256, skip + 1000 * dtype.itemsize, dtype="u1")
at = skip
for name in dtype.names:
    if dtype[name].base.kind == "b":
        start = skip + dtype.fields[name][1]
        for i in range(dtype[name].itemsize):
            raw[start + i :: dtype.itemsize] %= 2
raw.tofile(folder + "/records.dat")
found = np.fromfile(folder + "/records.dat", dtype, offset=skip)
for name in dtype.names:
    part = np.ascontiguousarray(found[name])
    part.astype(part.dtype.newbyteorder("<")).tofile(folder + "/" + name)
"#;

#[test]
fn records_are_what_numpy_reads() {
    let Some(python) = python() else { return };
    let kinds = [
        "b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "S5", "V3", "M8[ns]",
        "m8[25s]",
    ];
    let all: Vec<(String, &str, String)> = kinds
        .iter()
        .enumerate()
        .flat_map(|(i, kind)| {
            ["<", ">"].into_iter().enumerate().map(move |(j, order)| {
                (format!("{order}{kind}"), ["", "[3]", "[2,1,2]"][(i + j) % 3], format!("m{i}_{j}"))
            })
        })
        .collect();
    let single = |kind: &str| vec![(kind.to_owned(), "", "x".to_owned())];
    for (skip, members) in [(0, all.clone()), (7, all), (0, single("<f8")), (3, single(">i2")), (0, single("|u1"))] {
        let folder = tempfile::tempdir().unwrap();
        let shape = |dims: &str| if dims.is_empty() { "()".into() } else { dims.replace('[', "(").replace(']', ",)") };
        let args = members.iter().map(|(kind, dims, name)| format!("{kind}:{}:{name}", shape(dims)));
        let mut command = Command::new(&python);
        command.args(["-B", "-c", SCRIPT]).arg(folder.path()).arg(skip.to_string()).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

        let record: Vec<String> = members.iter().map(|(kind, dims, name)| format!("{kind}{dims} {name}")).collect();
        let options = [("record", record.join(", ")), ("skip", skip.to_string())].into_iter().collect();
        let source = Record.source(&options, Limits::default()).unwrap();
        let input = MemoryInput::new("records.dat", std::fs::read(folder.path().join("records.dat")).unwrap());
        let blocks: Vec<_> =
            source.open(Arc::new(&input)).unwrap().rows(0..u64::MAX).unwrap().map(|b| b.unwrap()).collect();
        assert_eq!(blocks.iter().map(|b| b.num_rows()).sum::<usize>(), 1000);
        for (_, _, name) in &members {
            let part = |block: &arrow_array::RecordBatch| {
                let column = block.column_by_name(name).unwrap();
                let values = column.as_fixed_size_list_opt().map_or(column, |lists| lists.values());
                assert!(values.null_count() == 0);
                bytes_of(values).unwrap().to_vec()
            };
            let found: Vec<u8> = blocks.iter().flat_map(part).collect();
            assert!(found == std::fs::read(folder.path().join(name)).unwrap(), "{name}");
        }
    }
}
