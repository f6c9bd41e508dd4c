//! Merged pairs equal the pair that is written from all documents.

use crate::common::{Folder, flat, pair};
use crate::round_trip::sentences;
use packhorse_core::{DataType, Input, Kind};
use packhorse_tokens::MergePlan;

/// Executes the plan with the sections in reverse order; returns both files.
fn carried_out(plan: &MergePlan, folders: &[&Folder]) -> (Vec<u8>, Vec<u8>) {
    let mut bin = vec![0xff; plan.bin_len() as usize];
    for body in plan.bodies() {
        let at = body.offset as usize;
        bin[at..at + body.len as usize].copy_from_slice(folders[body.input].bytes(".bin"));
    }
    let mut idx = plan.idx_header().unwrap();
    idx.resize(plan.idx_len() as usize, 0xff);
    for section in plan.sections().iter().rev() {
        let mut out = Vec::new();
        plan.write_section(section, &folders[section.input].input(".idx"), &mut out).unwrap();
        assert_eq!(out.len() as u64, section.len);
        idx[section.offset as usize..][..out.len()].copy_from_slice(&out);
    }
    (bin, idx)
}

#[test]
fn a_merged_pair_equals_one_written_together() {
    let parts = [flat(&[3, 0, 5], 1, 100), Vec::new(), sentences(), flat(&[0, 0], 1, 100), flat(&[1; 40], 7, 100)];
    let folders: Vec<Folder> = parts.iter().map(|part| pair(part, &DataType::UInt16, true)).collect();
    let inputs: Vec<_> = folders.iter().map(|folder| folder.input(".idx")).collect();
    let inputs: Vec<&dyn Input> = inputs.iter().map(|input| input as &dyn Input).collect();
    let whole = pair(&parts.concat(), &DataType::UInt16, true);
    let plan = MergePlan::new(&inputs).unwrap();
    let (bin, idx) = carried_out(&plan, &folders.iter().collect::<Vec<_>>());
    assert_eq!((&bin, &idx), (whole.bytes(".bin"), whole.bytes(".idx")));
    let mut streamed = Vec::new();
    plan.write_idx(&inputs, &mut streamed).unwrap();
    assert_eq!(streamed, idx);
    assert_eq!((plan.header().documents, plan.header().sequences), (51, 51));
}

#[test]
fn pairs_of_different_types_are_refused_by_name() {
    let documents = flat(&[3, 0, 5], 1, 100);
    let folders = [pair(&documents, &DataType::UInt16, false), pair(&documents, &DataType::Int32, false)];
    let inputs = folders.each_ref().map(|folder| folder.input(".idx"));
    let error = MergePlan::new(&[&inputs[0], &inputs[1]]).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(
        error.to_string().contains("some/part.idx has tokens of type u16, but some/part.idx has type i32"),
        "{error}"
    );
    assert_eq!(MergePlan::new(&[]).unwrap_err().kind(), Kind::Config);
}
