//! A session that lives on a server, seen from here: the same handle over a socket; and the tools of this machine,
//! lent to it.
#![warn(missing_docs)]
