//! `download` against a server that behaves as the real one, with its faults. Whatever happens, the file is either
//! complete and correct, or it is not there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sysop_local::Pin;
use sysop_local::download::{DownloadError, DownloadOptions, Downloaded, Progress, download};
use tempfile::TempDir;

use crate::hub::{Hub, PATH};

/// Hash of some other file.
const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const SIZE: usize = 3 * 1024 * 1024 + 17;

fn content() -> Vec<u8> {
    (0..SIZE).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// Returns the hash of bytes with the system's own program, which shares no code with the download.
fn sha256(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bytes");
    fs::write(&file, bytes).unwrap();
    let output = std::process::Command::new("sha256sum").arg(&file).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

struct Case {
    dir: TempDir,
    hub: Hub,
    pin: Pin,
    options: DownloadOptions,
    progress: Vec<Progress>,
}

impl Case {
    fn new() -> Self {
        let bytes = content();
        let hash = sha256(&bytes);
        let hub = Hub::start(&bytes, &hash);
        let pin = Pin { url: hub.url().parse().unwrap(), sha256: Some(hash), size: Some(SIZE as u64) };
        let options = DownloadOptions { first_wait: Duration::from_millis(1), ..DownloadOptions::default() };
        Self { dir: tempfile::tempdir().unwrap(), hub, pin, options, progress: Vec::new() }
    }

    fn target(&self) -> PathBuf {
        self.dir.path().join("model.gguf")
    }

    fn part(&self) -> PathBuf {
        self.dir.path().join("model.gguf.part")
    }

    fn run(&mut self) -> Result<Downloaded, DownloadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (target, progress) = (self.target(), &mut self.progress);
        let mut keep = |step| progress.push(step);
        runtime.block_on(download(&self.pin, &target, &self.options, &mut keep))
    }

    fn succeeds(&mut self) {
        assert_eq!(self.run().unwrap(), Downloaded::Fetched);
        assert!(fs::read(self.target()).unwrap() == content(), "the file differs");
        assert!(!self.part().exists());
    }

    fn fails(&mut self) -> DownloadError {
        let error = self.run().unwrap_err();
        assert!(!self.target().exists(), "a file is in place after {error}");
        error
    }

    fn restarts(&self) -> usize {
        self.progress.iter().filter(|step| matches!(step, Progress::Restarted { .. })).count()
    }
}

#[test]
fn a_file_behind_a_redirect_is_downloaded_and_checked() {
    let mut case = Case::new();
    case.succeeds();
    assert_eq!(case.hub.ranges(), [None]);
    assert_eq!(case.progress.last(), Some(&Progress::Bytes { done: SIZE as u64, total: Some(SIZE as u64) }));
    let requests = case.hub.state.lock().requests.len();
    assert_eq!(case.run().unwrap(), Downloaded::Present);
    assert_eq!(case.hub.state.lock().requests.len(), requests, "a complete file needs no request");
    assert!(!case.part().exists());
}

#[test]
fn interrupted_downloads_are_continued_where_they_ended() {
    let mut case = Case::new();
    case.hub.state.lock().cuts = vec![1_000_000, 500_000, 0, 1];
    case.succeeds();
    let bytes = [1_000_000, 1_500_000, 1_500_000, 1_500_001].map(|at: usize| Some(format!("bytes={at}-")));
    assert_eq!(case.hub.ranges()[1..], bytes);
}

#[test]
fn an_expired_address_is_requested_again() {
    let mut case = Case::new();
    {
        let mut state = case.hub.state.lock();
        state.cuts = vec![2_000_000];
        state.expired = 2;
    }
    case.succeeds();
    assert_eq!(case.hub.ranges(), [None, None, None, Some("bytes=2000000-".to_owned())]);
}

#[test]
fn a_server_that_keeps_failing_leaves_the_part_for_the_next_run() {
    let mut case = Case::new();
    {
        let mut state = case.hub.state.lock();
        state.cuts = vec![1_000_000];
        state.statuses = Vec::new();
        state.expired = 0;
    }
    case.hub.state.lock().cuts.extend([0; 20]);
    let error = case.fails();
    assert!(matches!(error, DownloadError::Interrupted { done: 1_000_000, .. }), "{error}");
    assert!(!error.to_string().contains("Signature"), "{error}");
    case.hub.state.lock().cuts.clear();
    case.succeeds();
    assert_eq!(
        case.progress.iter().filter(|step| matches!(step, Progress::Resumed { done: 1_000_000, .. })).count(),
        1
    );
}

#[test]
fn a_server_without_ranges_sends_the_file_from_its_beginning() {
    let mut case = Case::new();
    case.hub.state.lock().cuts = vec![1_000_000];
    case.hub.state.lock().ignores_ranges = true;
    case.succeeds();
    assert_eq!(case.restarts(), 1);
}

#[test]
fn a_file_with_wrong_bytes_is_never_installed() {
    let mut case = Case::new();
    {
        let mut state = case.hub.state.lock();
        state.linked_etag.clear();
        state.file[1_234_567] ^= 1;
    }
    let error = case.fails();
    assert!(matches!(error, DownloadError::WrongFile { what: "sha256", .. }), "{error}");
    assert!(!case.part().exists(), "wrong bytes are discarded");
}

#[test]
fn a_changed_file_is_refused_before_the_transfer() {
    let mut case = Case::new();
    case.hub.state.lock().linked_etag = HASH.to_owned();
    let error = case.fails();
    assert!(matches!(&error, DownloadError::WrongFile { found, .. } if found == HASH), "{error}");
    assert_eq!(case.hub.ranges(), []);
}

#[test]
fn a_file_that_changes_during_an_interruption_is_refused() {
    let mut case = Case::new();
    case.hub.state.lock().cuts = [vec![1_000_000], vec![0; 20]].concat();
    case.fails();
    {
        let mut state = case.hub.state.lock();
        (state.cuts, state.linked_etag) = (Vec::new(), String::new());
        state.file = vec![7; SIZE];
    }
    let error = case.fails();
    assert!(matches!(error, DownloadError::WrongFile { what: "sha256", .. }), "{error}");
}

#[test]
fn a_file_of_another_size_is_refused() {
    for size in [SIZE - 1, SIZE + 1] {
        let mut case = Case::new();
        {
            let mut state = case.hub.state.lock();
            state.linked_etag.clear();
            state.file.resize(size, 0);
        }
        let error = case.fails();
        assert!(matches!(error, DownloadError::WrongFile { what: "size", .. }), "{error}");
    }
}

#[test]
fn a_damaged_part_is_replaced() {
    let mut case = Case::new();
    fs::write(case.part(), vec![9; 1_000_000]).unwrap();
    case.succeeds();
    assert_eq!(case.restarts(), 1);
    assert_eq!(case.hub.ranges(), [Some("bytes=1000000-".to_owned()), None]);
}

#[test]
fn a_part_that_is_too_long_is_replaced() {
    let mut case = Case::new();
    fs::write(case.part(), vec![9; SIZE + 5]).unwrap();
    case.succeeds();
    case.pin.size = None;
    fs::remove_file(case.target()).unwrap();
    fs::write(case.part(), vec![9; SIZE + 5]).unwrap();
    case.succeeds();
}

#[test]
fn a_complete_part_needs_no_server() {
    let mut case = Case::new();
    fs::write(case.part(), content()).unwrap();
    case.succeeds();
    assert_eq!(case.hub.state.lock().requests, []);
}

#[test]
fn a_damaged_file_in_place_is_replaced() {
    let mut case = Case::new();
    fs::write(case.target(), "damaged").unwrap();
    case.succeeds();
}

#[test]
fn a_busy_server_is_asked_again_and_a_refusal_is_final() {
    let mut case = Case::new();
    case.hub.state.lock().statuses = vec![503, 429, 500];
    case.succeeds();
    for status in [401, 403, 404, 400] {
        let mut case = Case::new();
        case.hub.state.lock().statuses = vec![status];
        let error = case.fails();
        assert!(matches!(error, DownloadError::Refused { .. }), "{status}: {error}");
        assert_eq!(case.hub.state.lock().requests.len(), 1);
    }
}

#[test]
fn the_token_goes_to_the_first_server_only() {
    let mut case = Case::new();
    case.options.hf_token = Some("hf_secret".into());
    case.options.hf_endpoint = Some(case.hub.base().parse().unwrap());
    case.pin.url = format!("https://huggingface.co{PATH}").parse().unwrap();
    case.succeeds();
    let state = case.hub.state.lock();
    let sent: Vec<_> = state.requests.iter().map(|request| request.authorization.as_deref()).collect();
    assert_eq!(sent, [Some("Bearer hf_secret"), None]);
}

#[test]
fn the_token_goes_to_no_other_server() {
    let mut case = Case::new();
    case.options.hf_token = Some("hf_secret".into());
    case.succeeds();
    assert!(case.hub.state.lock().requests.iter().all(|request| request.authorization.is_none()));
}

#[test]
fn a_file_without_a_known_hash_is_refused() {
    let mut case = Case::new();
    case.pin.sha256 = None;
    assert!(matches!(case.fails(), DownloadError::NoHash));
    assert_eq!(case.hub.state.lock().requests, []);
}

#[test]
fn a_file_that_does_not_fit_on_the_disk_is_not_begun() {
    let mut case = Case::new();
    case.pin.size = Some(1 << 60);
    assert!(matches!(case.fails(), DownloadError::NoSpace { .. }));
    assert_eq!(case.hub.state.lock().requests, []);
}

#[test]
fn a_local_file_is_copied_and_checked() {
    let mut case = Case::new();
    let source = case.dir.path().join("source.gguf");
    case.pin.url = url::Url::from_file_path(&source).unwrap();
    assert!(matches!(case.fails(), DownloadError::Unreadable { .. }));
    fs::write(&source, content()).unwrap();
    case.succeeds();
    fs::remove_file(case.target()).unwrap();
    change_last_byte(&source);
    assert!(matches!(case.fails(), DownloadError::WrongFile { .. }));
}

fn change_last_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}
