//! Descriptions of the classes of trees, as written since ROOT 4, since files of other programs may
//! lack them. Trailing members that are never used are not listed.

use crate::streamer::{StreamerElement, code};
use std::sync::Arc;

/// A class: name, versions, and members as `name:kind`. An empty kind is a base class; `i` `l` `s` `d` `b` are
/// numbers of 4, 8, 2, 8 and 1 bytes; `n` a counter; `o` an object in place; `p` a pointer to an object; `t` a string;
/// `I` `L` pointers to arrays of 4-byte and 8-byte numbers, with the length in the member after the dot.
struct Class(&'static str, &'static [u16], &'static str);

const HEAD: &str = "TNamed: TAttLine: TAttFill: TAttMarker: fEntries:l fTotBytes:l fZipBytes:l fSavedBytes:l";

const CLASSES: &[Class] = &[
    Class(
        "TTree",
        &[16],
        "* fWeight:d fTimerInterval:i fScanField:i fUpdate:i fMaxEntries:l fMaxEntryLoop:l fMaxVirtualSize:l fAutoSave:l fEstimate:l fBranches:o fLeaves:o",
    ),
    Class(
        "TTree",
        &[17],
        "* fWeight:d fTimerInterval:i fScanField:i fUpdate:i fDefaultEntryOffsetLen:i fMaxEntries:l fMaxEntryLoop:l fMaxVirtualSize:l fAutoSave:l fEstimate:l fBranches:o fLeaves:o",
    ),
    Class(
        "TTree",
        &[18],
        "* fFlushedBytes:l fWeight:d fTimerInterval:i fScanField:i fUpdate:i fDefaultEntryOffsetLen:i fMaxEntries:l fMaxEntryLoop:l fMaxVirtualSize:l fAutoSave:l fAutoFlush:l fEstimate:l fBranches:o fLeaves:o",
    ),
    Class(
        "TTree",
        &[19],
        "* fFlushedBytes:l fWeight:d fTimerInterval:i fScanField:i fUpdate:i fDefaultEntryOffsetLen:i fNClusterRange:n fMaxEntries:l fMaxEntryLoop:l fMaxVirtualSize:l fAutoSave:l fAutoFlush:l fEstimate:l fClusterRangeEnd:L.fNClusterRange fClusterSize:L.fNClusterRange fBranches:o fLeaves:o",
    ),
    Class(
        "TTree",
        &[20],
        "* fFlushedBytes:l fWeight:d fTimerInterval:i fScanField:i fUpdate:i fDefaultEntryOffsetLen:i fNClusterRange:n fMaxEntries:l fMaxEntryLoop:l fMaxVirtualSize:l fAutoSave:l fAutoFlush:l fEstimate:l fClusterRangeEnd:L.fNClusterRange fClusterSize:L.fNClusterRange fIOFeatures:o fBranches:o fLeaves:o",
    ),
    Class("TNtuple", &[2], "TTree:"),
    Class("TNtupleD", &[1], "TTree:"),
    Class(
        "TBranch",
        &[10],
        "TNamed: TAttFill: fCompress:i fBasketSize:i fEntryOffsetLen:i fWriteBasket:i fEntryNumber:l fOffset:i fMaxBaskets:n fSplitLevel:i fEntries:l fTotBytes:l fZipBytes:l fBranches:o fLeaves:o fBaskets:o fBasketBytes:I.fMaxBaskets fBasketEntry:L.fMaxBaskets fBasketSeek:L.fMaxBaskets fFileName:t",
    ),
    Class(
        "TBranch",
        &[11, 12],
        "TNamed: TAttFill: fCompress:i fBasketSize:i fEntryOffsetLen:i fWriteBasket:i fEntryNumber:l fOffset:i fMaxBaskets:n fSplitLevel:i fEntries:l fFirstEntry:l fTotBytes:l fZipBytes:l fBranches:o fLeaves:o fBaskets:o fBasketBytes:I.fMaxBaskets fBasketEntry:L.fMaxBaskets fBasketSeek:L.fMaxBaskets fFileName:t",
    ),
    Class(
        "TBranch",
        &[13],
        "TNamed: TAttFill: fCompress:i fBasketSize:i fEntryOffsetLen:i fWriteBasket:i fEntryNumber:l fIOFeatures:o fOffset:i fMaxBaskets:n fSplitLevel:i fEntries:l fFirstEntry:l fTotBytes:l fZipBytes:l fBranches:o fLeaves:o fBaskets:o fBasketBytes:I.fMaxBaskets fBasketEntry:L.fMaxBaskets fBasketSeek:L.fMaxBaskets fFileName:t",
    ),
    Class(
        "TBranchElement",
        &[8, 9],
        "TBranch: fClassName:t fParentName:t fClonesName:t fCheckSum:i fClassVersion:i fID:i fType:i fStreamerType:i fMaximum:i",
    ),
    Class(
        "TBranchElement",
        &[10],
        "TBranch: fClassName:t fParentName:t fClonesName:t fCheckSum:i fClassVersion:s fID:i fType:i fStreamerType:i fMaximum:i",
    ),
    Class("TBranchObject", &[1], "TBranch: fClassName:t"),
    Class("TLeaf", &[2], "TNamed: fLen:i fLenType:i fOffset:i fIsRange:b fIsUnsigned:b fLeafCount:p"),
    Class("TLeafO", &[1], "TLeaf:"),
    Class("TLeafB", &[1], "TLeaf:"),
    Class("TLeafS", &[1], "TLeaf:"),
    Class("TLeafI", &[1], "TLeaf:"),
    Class("TLeafG", &[1], "TLeaf:"),
    Class("TLeafL", &[1], "TLeaf:"),
    Class("TLeafF", &[1], "TLeaf:"),
    Class("TLeafD", &[1], "TLeaf:"),
    Class("TLeafC", &[1], "TLeaf:"),
    Class("TLeafF16", &[1], "TLeaf:"),
    Class("TLeafD32", &[1], "TLeaf:"),
    Class("TLeafElement", &[1], "TLeaf: fID:i fType:i"),
];

/// The members of `class` in `version`, if it is built in.
pub(crate) fn members(class: &str, version: u16) -> Option<Arc<[StreamerElement]>> {
    let found = CLASSES.iter().find(|c| c.0 == class && c.1.contains(&version))?;
    let words = found.2.split_whitespace().flat_map(|word| if word == "*" { HEAD } else { word }.split_whitespace());
    Some(words.filter_map(element).collect())
}

fn element(word: &str) -> Option<StreamerElement> {
    let (name, kind) = word.split_once(':')?;
    let (kind, counter) = kind.split_once('.').unwrap_or((kind, ""));
    let (code, type_name) = match kind {
        "" if name == "TNamed" => (code::TNAMED, "BASE"),
        "" => (code::BASE, "BASE"),
        "b" => (18, "bool"),
        "s" => (2, "short"),
        "i" => (3, "int"),
        "n" => (code::COUNTER, "int"),
        "l" => (16, "Long64_t"),
        "d" => (8, "double"),
        "o" if name == "fIOFeatures" => (code::ANY, "ROOT::TIOFeatures"),
        "o" => (code::OBJECT, "TObjArray"),
        "p" => (code::OBJECT_POINTER_MAY_BE_NULL, "TLeaf*"),
        "t" => (code::STRING, "TString"),
        "I" => (code::POINTER + 3, "int*"),
        "L" => (code::POINTER + 16, "Long64_t*"),
        _ => return None,
    };
    Some(StreamerElement {
        name: name.into(),
        title: String::new(),
        type_name: type_name.to_owned(),
        code,
        array: 0,
        dimensions: Vec::new(),
        counter: counter.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_parsed() {
        for class in CLASSES {
            for version in class.1 {
                let words = class.2.replace('*', HEAD).split_whitespace().count();
                assert_eq!(members(class.0, *version).unwrap().len(), words, "{}", class.0);
            }
        }
        assert!(members("TTree", 21).is_none());
    }
}
