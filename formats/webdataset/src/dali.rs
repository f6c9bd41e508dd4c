//! DALI's index, version `v1.2`, as its `wds2idx` writes it: one line per sample with the extension, data offset,
//! length and name of each member.

use packhorse_core::{Code, Context, Error, Members, Result};
use std::io::{BufWriter, Write};

/// Errors: `Content` for a name with white space, at which DALI divides its index.
pub(crate) fn write(members: &Members, out: &mut dyn Write) -> Result<()> {
    let is_divided = |name: &str| name.contains(char::is_whitespace);
    for (key, mut list) in members.iter() {
        if is_divided(key) || list.any(|member| is_divided(member.field)) {
            let error = Error::content("has white space in its name, and DALI's index is divided there");
            let hint = "leave it out of `index`, or pack the tar, which escapes white space";
            return Err(error.with_code(Code::BadName).hint(hint).in_sample(key));
        }
    }
    lines(members, &mut BufWriter::with_capacity(256 << 10, out)).context("write the DALI index")
}

fn lines(members: &Members, out: &mut impl Write) -> std::io::Result<()> {
    // In third-party tars: DALI passes over hidden files, whose keys end where their folders do.
    let is_hidden = |key: &str| key.ends_with('/');
    let hidden = members.iter().filter(|(key, _)| is_hidden(key)).count();
    writeln!(out, "v1.2 {}", members.samples() - hidden)?;
    for (key, list) in members.iter().filter(|(key, _)| !is_hidden(key)) {
        for (i, m) in list.enumerate() {
            let gap = if i == 0 { "" } else { " " };
            write!(out, "{gap}{field} {} {} {key}.{field}", m.offset, m.len, field = m.field)?;
        }
        out.write_all(b"\n")?;
    }
    out.flush()
}
