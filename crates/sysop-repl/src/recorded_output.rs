//! Writer for tests that records what is written.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;

/// Output whose clones record into the same buffer.
#[derive(Clone, Default)]
pub(crate) struct RecordedOutput(Arc<Mutex<Vec<u8>>>);

impl RecordedOutput {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).expect("it is UTF-8")
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

impl Write for RecordedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
