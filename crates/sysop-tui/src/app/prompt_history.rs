//! Prompts from this and earlier sessions, which the user browses with the arrow keys, and their file format.

const MESSAGES_MAX: usize = 10_000;
/// Encoding of a newline in the history file, the same as in Reedline.
const LINE_END: &str = "<\\n>";

/// Earlier prompts, oldest first.
#[derive(Debug, Default)]
pub struct PromptHistory {
    messages: Vec<String>,
    /// Index of the prompt shown while browsing; `None` while the user is writing.
    at: Option<usize>,
    /// Draft that was interrupted by browsing.
    begun: String,
}

impl PromptHistory {
    /// Parses the content of the history file.
    pub fn read(text: &str) -> Self {
        let mut prompt_history = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            prompt_history.messages.push(line.replace(LINE_END, "\n"));
        }
        prompt_history.trim();
        prompt_history
    }

    pub fn line(message: &str) -> String {
        format!("{}\n", message.replace('\n', LINE_END))
    }

    pub fn newest_first(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().rev().map(String::as_str)
    }

    /// Adds a prompt. Returns false if it is blank or equal to the last one.
    pub fn push(&mut self, message: &str) -> bool {
        self.at = None;
        if message.trim().is_empty() || self.messages.last().is_some_and(|last| last == message) {
            return false;
        }
        self.messages.push(message.to_owned());
        self.trim();
        true
    }

    /// Goes to the previous prompt and returns it, or `None` if there is none. `now` is the composer's text.
    pub fn older(&mut self, now: &str) -> Option<&str> {
        let at = match self.at {
            None => {
                now.clone_into(&mut self.begun);
                self.messages.len()
            }
            Some(at) => at,
        };
        let at = at.checked_sub(1)?;
        self.at = Some(at);
        Some(&self.messages[at])
    }

    /// Goes to the next prompt, or from the last one to the draft. Returns its text; `None` if not browsing.
    pub fn newer(&mut self) -> Option<&str> {
        let at = self.at? + 1;
        match self.messages.get(at) {
            Some(message) => {
                self.at = Some(at);
                Some(message)
            }
            None => {
                self.at = None;
                Some(&self.begun)
            }
        }
    }

    /// Stops browsing because the user edited the prompt.
    pub fn changed(&mut self) {
        self.at = None;
    }

    fn trim(&mut self) {
        let surplus = self.messages.len().saturating_sub(MESSAGES_MAX);
        self.messages.drain(..surplus);
    }
}
