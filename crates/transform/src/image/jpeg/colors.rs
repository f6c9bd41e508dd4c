//! Which colours the channels of a JPEG are. JFIF decides, then Adobe's segment, then the names of the channels, as in
//! libjpeg; zune-jpeg has another order, so it gets a copy without contradictions.

use super::header::{SOS, Segments, is_frame};

/// The segment of Adobe, APP14: its transform is byte 11.
const ADOBE: u8 = 0xee;
/// The place of the transform in it.
const TRANSFORM: usize = 11;

/// What the segments before the first scan say about colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ColorSigns {
    jfif: bool,
    /// 0: none, 1: YCbCr, 2: YCCK.
    adobe: Option<u8>,
    /// Whether the channels are called `R`, `G`, `B`.
    letters: bool,
}

impl ColorSigns {
    pub(super) fn take(&mut self, marker: u8, body: &[u8]) {
        match marker {
            0xe0 => self.jfif |= body.len() >= 14 && body.starts_with(b"JFIF\0"),
            ADOBE if body.starts_with(b"Adobe") => self.adobe = body.get(TRANSFORM).copied().or(self.adobe),
            _ if is_frame(marker) => {
                let parts = body.get(6..).unwrap_or_default().as_chunks::<3>().0;
                self.letters = parts.iter().map(|[name, ..]| *name).eq(*b"RGB");
            }
            _ => {}
        }
    }

    /// Whether three channels are YCbCr; otherwise RGB.
    pub(super) fn luma_chroma(self) -> bool {
        self.jfif || self.adobe.map_or(!self.letters, |transform| transform != 0)
    }

    /// Whether decoders disagree about this many channels.
    pub(super) fn contradict(self, components: u8) -> bool {
        match (components, self.adobe) {
            (3, Some(3..)) | (4, Some(1 | 3..)) => true,
            (3, adobe) => self.luma_chroma() == (self.letters || adobe == Some(0)),
            _ => false,
        }
    }

    /// A copy of a JPEG whose segments say the same and agree on it.
    pub(super) fn agreed(self, bytes: &[u8], components: u8) -> Vec<u8> {
        let mut copy = bytes.to_vec();
        let transform = match (components, self.adobe) {
            (4, Some(0)) => 0,
            (4, _) => 2,
            _ => u8::from(self.luma_chroma()),
        };
        let renamed = self.letters && self.luma_chroma();
        let mut segments = Segments::new(bytes);
        while let Some(Ok((marker, body))) = segments.next() {
            let end = segments.position(bytes);
            let Some(body) = copy.get_mut(end - body.len()..end) else { break };
            match marker {
                ADOBE if body.starts_with(b"Adobe") => {
                    body.get_mut(TRANSFORM..).into_iter().flatten().take(1).for_each(|byte| *byte = transform);
                }
                _ if renamed && is_frame(marker) => body.iter_mut().skip(6).step_by(3).for_each(number),
                SOS if renamed => {
                    let parts = usize::from(body.first().copied().unwrap_or(0));
                    body.iter_mut().skip(1).step_by(2).take(parts).for_each(number);
                }
                _ => {}
            }
        }
        copy
    }
}

/// Makes the name of a channel a number.
fn number(name: &mut u8) {
    *name = match *name {
        b'R' => 1,
        b'G' => 2,
        b'B' => 3,
        other => other,
    };
}
