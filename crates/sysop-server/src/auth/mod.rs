//! Who may enter: tokens, the page's cookie, the names by which the server is called and the pages that may call it.
//!
//! It decides of requests, not of sessions. Nothing here says, logs or stores a token; what is wrong with one is not told.

mod answers;
mod gate;
mod place;
mod proxy;
mod token;
mod tokens;

#[cfg(test)]
mod tests;

pub use self::gate::{Gate, GateSettings};
pub use self::place::{Authority, BadPlace, Exposed, Exposure, Origin, Places};
pub use self::proxy::{BadNetwork, Proxies};
pub use self::token::{NewToken, mint};
pub use self::tokens::{Bearer, Shown, Tokens};
