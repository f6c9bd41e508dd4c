//! Builds tars with arbitrary headers, valid or not.

const BLOCK: usize = 512;

/// One member.
#[derive(Clone, Debug)]
pub struct TarMember {
    /// The name field, at most 100 bytes.
    pub name: Vec<u8>,
    /// The prefix field, at most 155 bytes.
    pub prefix: Vec<u8>,
    /// The type: `b'0'` is a regular file.
    pub kind: u8,
    /// The size in the header: the length of `bytes` unless a test overrides it.
    pub size: u64,
    /// The content, padded to whole blocks.
    pub bytes: Vec<u8>,
}

impl TarMember {
    /// A regular file.
    pub fn file(name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Self {
        Self::of_kind(b'0', name, bytes)
    }

    /// A member of another type.
    pub fn of_kind(kind: u8, name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Self {
        let (name, bytes) = (name.as_ref().to_vec(), bytes.as_ref().to_vec());
        Self { name, prefix: Vec::new(), kind, size: bytes.len() as u64, bytes }
    }

    /// A PAX header with these records for the next member.
    pub fn pax(records: &[(&str, &[u8])]) -> Self {
        let records: Vec<u8> = records.iter().flat_map(|(name, value)| record(name, value)).collect();
        Self::of_kind(b'x', "PaxHeaders/0", records)
    }

    /// A GNU long name for the next member.
    pub fn gnu_name(name: impl AsRef<[u8]>) -> Self {
        Self::of_kind(b'L', "././@LongLink", [name.as_ref(), b"\0"].concat())
    }

    /// Sets the prefix.
    pub fn with_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Declares `size` in the header.
    pub fn declaring(mut self, size: u64) -> Self {
        self.size = size;
        self
    }

    /// Header, bytes and padding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.header().to_vec();
        out.extend_from_slice(&self.bytes);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
        out
    }

    fn header(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| {
            block.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
        };
        put(0, &self.name);
        put(100, b"0000644\0");
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, &number(self.size));
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, &[self.kind]);
        put(257, b"ustar\x0000");
        put(345, &self.prefix);
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        let sum = format!("{sum:06o}\0");
        block.iter_mut().skip(148).zip(sum.bytes()).for_each(|(to, from)| *to = from);
        block
    }
}

/// A PAX record: its own length in digits, a space, `name=value`, a newline.
fn record(name: &str, value: &[u8]) -> Vec<u8> {
    let rest = name.len() + value.len() + 3;
    let len = (1..20).map(|digits| rest + digits).find(|len| rest + len.to_string().len() == *len).unwrap();
    [format!("{len} {name}=").as_bytes(), value, b"\n"].concat()
}

/// Eleven octal digits, or base 256 for larger numbers.
fn number(size: u64) -> Vec<u8> {
    match size < 1 << 33 {
        true => format!("{size:011o}\0").into_bytes(),
        false => [&[0x80, 0, 0, 0][..], &size.to_be_bytes()].concat(),
    }
}

/// The members followed by the end-of-archive mark.
pub fn archive(members: &[TarMember]) -> Vec<u8> {
    let mut out: Vec<u8> = members.iter().flat_map(TarMember::encode).collect();
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}
