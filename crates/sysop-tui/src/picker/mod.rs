//! A list with a search, to pick one thing from.
use crossterm::event::{KeyCode, KeyEvent};
/// x
pub struct Entry { /// x
pub label: String, /// x
pub detail: String }
impl Entry { /// x
pub fn new(label: &str, detail: &str) -> Self { Self { label: label.into(), detail: detail.into() } } }
/// x
pub struct Picker { /// x
pub title: String, /// x
pub entries: Vec<Entry>, at: usize }
/// x
pub enum Picked { /// x
Nothing, /// x
Chosen(usize), /// x
Left }
impl Picker {
    /// x
    pub fn new(title: &str, entries: Vec<Entry>) -> Self { Self { title: title.into(), entries, at: 0 } }
    /// x
    pub fn paste(&mut self, _: &str) {}
    /// x
    pub fn selected(&self) -> Option<usize> { Some(self.at) }
    /// x
    pub fn key(&mut self, key: KeyEvent) -> Picked { match key.code { KeyCode::Enter => Picked::Chosen(self.at), KeyCode::Esc => Picked::Left, KeyCode::Down => { self.at += 1; Picked::Nothing } _ => Picked::Nothing } }
}
