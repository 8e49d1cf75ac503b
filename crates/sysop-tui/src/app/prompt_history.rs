//! What was said before, in this session and earlier ones: the arrows walk through it. Also the form of the file.

/// How many messages are remembered.
const MESSAGES_MAX: usize = 10_000;
/// What stands for a line end in the file; reedline's form.
const LINE_END: &str = "<\\n>";

/// Earlier messages, the oldest first.
#[derive(Debug, Default)]
pub struct PromptHistory {
    messages: Vec<String>,
    /// Where the arrows are; none while the person writes.
    at: Option<usize>,
    /// What was being written when the arrows left it.
    begun: String,
}

impl PromptHistory {
    /// Reads the text of the file.
    pub fn read(text: &str) -> Self {
        let mut prompt_history = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            prompt_history.messages.push(line.replace(LINE_END, "\n"));
        }
        prompt_history.trim();
        prompt_history
    }

    /// A message as a line of the file.
    pub fn line(message: &str) -> String {
        format!("{}\n", message.replace('\n', LINE_END))
    }

    /// The messages, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().rev().map(String::as_str)
    }

    /// Remembers a message; says whether it is news.
    pub fn push(&mut self, message: &str) -> bool {
        self.at = None;
        if message.trim().is_empty() || self.messages.last().is_some_and(|last| last == message) {
            return false;
        }
        self.messages.push(message.to_owned());
        self.trim();
        true
    }

    /// The message before; `now` is what is in the box.
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

    /// The message after; at the end what was being written.
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

    /// The person has changed what the arrows brought.
    pub fn changed(&mut self) {
        self.at = None;
    }

    /// Whether the arrows walk through it now.
    pub fn is_browsing(&self) -> bool {
        self.at.is_some()
    }

    fn trim(&mut self) {
        let surplus = self.messages.len().saturating_sub(MESSAGES_MAX);
        self.messages.drain(..surplus);
    }
}
