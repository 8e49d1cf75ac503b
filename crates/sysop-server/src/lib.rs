//! Sessions over HTTP: the WebSocket, SSE with POST, who may do what, and the door for tools that clients lend.
#![warn(missing_docs)]
