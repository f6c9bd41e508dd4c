//! RNTuple, the successor of TTree:
//! [specification](https://github.com/root-project/root/blob/master/tree/ntuple/doc/BinaryFormatSpecification.md),
//! version 1.0.

mod clusters;
mod envelope;
mod node;
mod page;
mod read;
mod rows;
mod schema;

pub(crate) use node::{LeafField, Node, leaves};
pub(crate) use rows::NtupleRows;

use crate::bytes::Bytes;
use crate::file::{RootFile, TKey};
use clusters::Cluster;
use envelope::{Locator, Words};
use packhorse_core::{Error, Result};
use schema::SchemaDescription;

/// The class of the anchor object.
pub(crate) const CLASS: &str = "ROOT::RNTuple";

const HEADER: u16 = 1;
const FOOTER: u16 = 2;
const PAGES: u16 = 3;

/// The metadata of an RNTuple.
#[derive(Debug)]
pub(crate) struct Ntuple {
    pub(crate) entries: u64,
    pub(crate) records: SchemaDescription,
    clusters: Vec<Cluster>,
}

impl Ntuple {
    /// Reads the RNTuple at `key`.
    pub(crate) fn read(file: &RootFile<'_>, key: &TKey) -> Result<Self> {
        let (header, footer) = anchor(&file.payload(key)?.bytes)?;
        let header = envelope(file, header)?;
        let mut words = Words::envelope(&header, HEADER)?;
        words.features()?;
        for _ in 0..3 {
            words.string()?;
        }
        let mut records = SchemaDescription::default();
        records.add(&mut words)?;
        let footer = envelope(file, footer)?;
        let mut words = Words::envelope(&footer, FOOTER)?;
        words.features()?;
        words.u64()?;
        records.add(&mut words.frame()?.words)?;
        let mut clusters = Vec::new();
        let groups = words.frame()?;
        let mut list = groups.words;
        for _ in 0..groups.count {
            let mut group = list.frame()?.words;
            group.u64()?;
            group.u64()?;
            group.u32()?;
            let len = group.u64()?;
            let pages = envelope(file, (group.locator()?, len))?;
            clusters::read(&mut Words::envelope(&pages, PAGES)?, &mut clusters)?;
        }
        clusters.sort_by_key(|cluster| cluster.first);
        let entries = clusters.iter().try_fold(0u64, |next, cluster| {
            (cluster.first == next).then(|| next.checked_add(cluster.entries)).flatten()
        });
        let entries = entries.ok_or_else(|| Error::content("clusters that are not consecutive"))?;
        Ok(Self { entries, records, clusters })
    }

    /// Approximate uncompressed bytes of the columns `numbers` in all clusters.
    pub(crate) fn bytes(&self, numbers: &[usize]) -> u64 {
        self.clusters.iter().map(|cluster| self.cluster_bytes(cluster, numbers)).fold(0, u64::saturating_add)
    }

    fn cluster_bytes(&self, cluster: &Cluster, numbers: &[usize]) -> u64 {
        let column = |number: &usize| {
            let pages = cluster.columns.get(*number)?.as_ref()?;
            let elements = pages.last().map_or(0, |page| page.first.saturating_add(page.elements));
            let bits = self.records.columns.get(*number)?.bits.max(8);
            Some(elements.saturating_mul(u64::from(bits)) / 8)
        };
        numbers.iter().filter_map(column).fold(0, u64::saturating_add)
    }
}

/// Locators and uncompressed sizes of header and footer.
fn anchor(bytes: &[u8]) -> Result<((Locator, u64), (Locator, u64))> {
    let mut bytes = Bytes::new(bytes);
    bytes.header()?;
    let version = bytes.u16()?;
    bytes.take(6)?;
    if version != 1 {
        return Err(Error::unsupported(format!("an RNTuple of version {version}; only version 1 is supported")));
    }
    let mut link = || {
        let (at, len, unpacked) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        Ok((Locator { at, len }, unpacked))
    };
    Ok((link()?, link()?))
}

fn envelope(file: &RootFile<'_>, (place, len): (Locator, u64)) -> Result<Vec<u8>> {
    let bytes = file.read(place.at, place.len)?;
    match place.len == len {
        true => Ok(bytes),
        false => file.coders().unpack(&bytes, file.limits().blob(len)?),
    }
}
