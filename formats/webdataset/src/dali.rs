//! DALI's index, version `v1.2`, as its `wds2idx` writes it: one line per sample with the extension, data offset,
//! length and name of each member.

use packhorse_core::{Context, Members, Result};
use std::io::{BufWriter, Write};

pub(crate) fn write(members: &Members, out: &mut dyn Write) -> Result<()> {
    lines(members, &mut BufWriter::with_capacity(256 << 10, out)).context("write the DALI index")
}

fn lines(members: &Members, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "v1.2 {}", members.samples())?;
    for (key, list) in members.iter() {
        for (i, m) in list.enumerate() {
            let gap = if i == 0 { "" } else { " " };
            write!(out, "{gap}{field} {} {} {key}.{field}", m.offset, m.len, field = m.field)?;
        }
        out.write_all(b"\n")?;
    }
    out.flush()
}
