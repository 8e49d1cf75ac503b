/** Elements that keep the focus when a session is opened, because the user writes in them. */
export const WRITING = "textarea, .terminal-side *, dialog *";
