/** Elements in which the user writes. They keep the focus when a session is opened or a prompt returns. */
export const WRITING = "textarea, .terminal-side *, dialog *";
