//! Effect of a program on the paths that it writes, and the words for it.

/// Effect of a program on the paths that the table lists as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteEffect {
    Write,
    Touch,
    CreateDirectory,
    Link,
    Move,
    Delete,
    DeleteDirectory,
    SetMode,
    SetOwner,
    SetAttributes,
}

impl WriteEffect {
    pub(super) fn of(program: &str) -> Self {
        match program {
            "touch" => Self::Touch,
            "mkdir" => Self::CreateDirectory,
            "ln" | "link" => Self::Link,
            "mv" => Self::Move,
            "rm" | "unlink" | "trash" => Self::Delete,
            "rmdir" => Self::DeleteDirectory,
            "chmod" | "setfacl" => Self::SetMode,
            "chown" | "chgrp" => Self::SetOwner,
            "chattr" => Self::SetAttributes,
            _ => Self::Write,
        }
    }

    /// Returns the reason for this effect on an ordinary path.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Write => "writes to a file",
            Self::Touch => "creates or changes a file",
            Self::CreateDirectory => "creates a directory",
            Self::Link => "creates a link",
            Self::Move => "moves or overwrites a file or directory",
            Self::Delete => "deletes a file or directory",
            Self::DeleteDirectory => "deletes a directory",
            Self::SetMode => "changes the permissions of a file or directory",
            Self::SetOwner => "changes the owner of a file or directory",
            Self::SetAttributes => "changes the attributes of a file or directory",
        }
    }

    /// Returns the verb for this effect on a protected place.
    pub(super) fn verb(self) -> &'static str {
        if self.deletes() { "deletes" } else { "changes" }
    }

    /// Returns the verb for this effect on a path of which little is known.
    pub(super) fn verb_on_path(self) -> &'static str {
        match self {
            Self::Write | Self::Touch | Self::CreateDirectory | Self::Link | Self::Move => "writes to",
            Self::Delete | Self::DeleteDirectory => "deletes",
            Self::SetMode | Self::SetOwner | Self::SetAttributes => "changes",
        }
    }

    /// Returns true if the reason says no more than the verb on a path.
    pub(super) fn is_told_by_verb(self) -> bool {
        self == Self::Write || self.deletes()
    }

    /// Returns true if the content of existing files stays as it is.
    pub(super) fn keeps_content(self) -> bool {
        match self {
            Self::Touch | Self::CreateDirectory | Self::SetMode | Self::SetOwner | Self::SetAttributes => {
                true
            }
            Self::Write | Self::Link | Self::Move | Self::Delete | Self::DeleteDirectory => false,
        }
    }

    fn deletes(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteDirectory)
    }
}
