//! Finds the marks of the remote script in its output. Text before the start mark is noise of login shells. The output
//! of a program ends before the end mark.
//!
//! A mark is `RS letter NONCE [; value] RS`, with a new nonce for each session.

/// ASCII record separator, which terminals and programs hardly use.
const MARK: u8 = 0x1e;
/// Maximum noise kept for the error message if the start mark is missing.
const NOISE_BYTES_MAX: usize = 2_000;
/// Maximum length of a mark's value, in bytes. The longest value is a path.
const VALUE_BYTES_MAX: usize = 8 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScriptMark {
    /// The script started. The value contains its process id and its directory.
    Started(String),
    /// System information.
    MachineInfo(String),
    /// The root cannot be entered; nothing ran.
    NoRoot,
    /// The program exited with this status.
    Ended(String),
}

#[derive(Debug)]
pub(super) struct MarkParser {
    nonce: String,
    pending: Vec<u8>,
    noise: Vec<u8>,
    stage: ParseStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParseStage {
    Before,
    Within,
    After,
}

impl MarkParser {
    pub(super) fn new(nonce: &str) -> Self {
        Self { nonce: nonce.to_owned(), pending: Vec::new(), noise: Vec::new(), stage: ParseStage::Before }
    }

    /// Consumes bytes. Passes the program's output to `output` and each mark to `mark`, in order.
    pub(super) fn take(&mut self, bytes: &[u8], output: impl FnMut(&[u8]), mark: impl FnMut(ScriptMark)) {
        if self.pending.is_empty() {
            let pending = self.scan(bytes, output, mark).to_vec();
            self.pending = pending;
        } else {
            let mut joined = std::mem::take(&mut self.pending);
            joined.extend_from_slice(bytes);
            let pending = self.scan(&joined, output, mark).to_vec();
            self.pending = pending;
        }
    }

    /// Passes on the bytes that were held back as the start of a mark. Must be called at the end of the stream.
    pub(super) fn finish(&mut self, mut output: impl FnMut(&[u8])) {
        let pending = std::mem::take(&mut self.pending);
        self.pass(&pending, &mut output);
    }

    pub(super) fn has_started(&self) -> bool {
        self.stage != ParseStage::Before
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stage == ParseStage::After
    }

    /// Returns the text received instead of a start mark.
    pub(super) fn noise(&self) -> String {
        String::from_utf8_lossy(&self.noise).into_owned()
    }

    fn pass(&mut self, bytes: &[u8], output: &mut impl FnMut(&[u8])) {
        match self.stage {
            ParseStage::Before => {
                let room = NOISE_BYTES_MAX.saturating_sub(self.noise.len());
                self.noise.extend_from_slice(&bytes[..room.min(bytes.len())]);
            }
            ParseStage::Within | ParseStage::After if !bytes.is_empty() => output(bytes),
            ParseStage::Within | ParseStage::After => {}
        }
    }

    /// Passes on output and complete marks. Returns the start of an incomplete mark.
    fn scan<'a>(
        &mut self,
        bytes: &'a [u8],
        mut output: impl FnMut(&[u8]),
        mut mark: impl FnMut(ScriptMark),
    ) -> &'a [u8] {
        let mut rest = bytes;
        let mut from = 0;
        while let Some(found) = memchr::memchr(MARK, &rest[from..]) {
            let at = from + found;
            match self.read(&rest[at..]) {
                MarkMatch::Complete(read, length) => {
                    self.pass(&rest[..at], &mut output);
                    self.stage = match read {
                        ScriptMark::Started(_) => ParseStage::Within,
                        ScriptMark::Ended(_) => ParseStage::After,
                        ScriptMark::MachineInfo(_) | ScriptMark::NoRoot => self.stage,
                    };
                    mark(read);
                    rest = &rest[at + length..];
                    from = 0;
                }
                MarkMatch::Incomplete => {
                    self.pass(&rest[..at], &mut output);
                    return &rest[at..];
                }
                MarkMatch::None => from = at + 1,
            }
        }
        self.pass(rest, &mut output);
        &[]
    }

    /// Parses a mark at the start of `bytes`.
    fn read(&self, bytes: &[u8]) -> MarkMatch {
        let nonce = self.nonce.as_bytes();
        let letter = match bytes.get(1) {
            None => return MarkMatch::Incomplete,
            Some(letter) if b"SFCE".contains(letter) => *letter,
            Some(_) => return MarkMatch::None,
        };
        let named = &bytes[2..];
        let common = named.len().min(nonce.len());
        if named[..common] != nonce[..common] {
            return MarkMatch::None;
        }
        let Some(value) = named.get(nonce.len()..) else { return MarkMatch::Incomplete };
        let value = match value.first() {
            None => return MarkMatch::Incomplete,
            Some(b';') => &value[1..],
            Some(&MARK) => value,
            Some(_) => return MarkMatch::None,
        };
        let Some(end) = memchr::memchr(MARK, value) else {
            return if value.len() > VALUE_BYTES_MAX { MarkMatch::None } else { MarkMatch::Incomplete };
        };
        let text = String::from_utf8_lossy(&value[..end]).into_owned();
        let length = bytes.len() - value.len() + end + 1;
        let mark = match letter {
            b'S' => ScriptMark::Started(text),
            b'F' => ScriptMark::MachineInfo(text),
            b'C' => ScriptMark::NoRoot,
            _ => ScriptMark::Ended(text),
        };
        MarkMatch::Complete(mark, length)
    }
}

enum MarkMatch {
    Complete(ScriptMark, usize),
    /// More bytes are needed.
    Incomplete,
    None,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    use super::{MarkParser, ScriptMark};

    fn read(chunks: &[&[u8]]) -> (Vec<u8>, Vec<ScriptMark>, MarkParser) {
        let (mut output, mut marks) = (Vec::new(), Vec::new());
        let mut frame = MarkParser::new("abc");
        for chunk in chunks {
            frame.take(chunk, |bytes| output.extend_from_slice(bytes), |mark| marks.push(mark));
        }
        frame.finish(|bytes| output.extend_from_slice(bytes));
        (output, marks, frame)
    }

    #[test]
    fn noise_before_the_start_mark_is_dropped() {
        let (output, marks, frame) =
            read(&[b"motd\x1e\n\x1eSabc;42\x1eout\x1eEabd;0\x1eput\x1eEabc;7\x1ebackground"]);
        assert_eq!(output, b"out\x1eEabd;0\x1eputbackground");
        assert_eq!(marks, [ScriptMark::Started("42".to_owned()), ScriptMark::Ended("7".to_owned())]);
        assert_eq!(frame.noise(), "motd\x1e\n");
        assert!(frame.has_started() && frame.has_ended());
    }

    #[test]
    fn a_broken_stream_passes_on_an_incomplete_mark() {
        let (output, _, frame) = read(&[b"\x1eSabc;1\x1ex", b"\x1eEab"]);
        assert_eq!(output, b"x\x1eEab");
        assert!(!frame.has_ended());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn marks_do_not_depend_on_chunk_boundaries(
            middle in proptest::collection::vec(proptest::sample::select(b"\x1eEabcS;0x\n".to_vec()), 0..40),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let stream = [b"n\x1eSabc;1\x1e".as_slice(), &middle, b"\x1eEabc;0\x1ez"].concat();
            let mut borders: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            borders.extend([0, stream.len()]);
            borders.sort_unstable();
            let chunks: Vec<&[u8]> = borders.windows(2).map(|two| &stream[two[0]..two[1]]).collect();
            let (whole, cut) = (read(&[&stream]), read(&chunks));
            prop_assert_eq!(cut.0, whole.0);
            prop_assert_eq!(cut.1, whole.1);
        }
    }
}
