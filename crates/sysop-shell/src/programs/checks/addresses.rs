//! Programs that show addresses. They resolve names that they are given, and the addresses that they show.

use std::net::IpAddr;

use crate::lexer::Word;
use crate::options::{Reading, is_listed};
use crate::program_call::ProgramCall;
use crate::risk::RiskClass;
use crate::state::State;

/// Words of the filter languages of `ss` and `ip route get`.
const KEYWORDS: &str = "state exclude dst src sport dport dev and or not eq ne gt lt ge le = == != > < all connected \
    synchronized bucket big established syn-sent syn-recv fin-wait-1 fin-wait-2 time-wait closed close-wait last-ack \
    listening closing fibmatch from to via oif iif mark uid ipproto vrf table main default proto root match exact";

/// Assesses operands. Numbers and filter words resolve nothing, and neither does a word after `dev` or a
/// similar keyword, which names a link. Any other word is resolved as a name.
pub(super) fn operands(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let texts = reading.operands.iter().map(|word| word.text());
    let mut link = false;
    for text in texts.flat_map(str::split_whitespace) {
        let known = std::mem::take(&mut link) || is_listed(KEYWORDS, text) || is_numeric(text);
        link = matches!(text, "dev" | "oif" | "iif" | "vrf" | "table" | "proto");
        if !known {
            return state.note(call.span, RiskClass::ReadsRemote, "resolves names");
        }
    }
}

/// Assesses programs that resolve the addresses that they show, unless an option prevents it.
pub(super) fn numeric(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let has = |names: &[&str]| names.iter().any(|name| reading.has(name));
    let name = call.words.first().map_or("", Word::text).rsplit('/').next().unwrap_or("");
    let shows_addresses = match name {
        "lsof" => has(&["i"]),
        "netstat" => !has(&["s", "statistics", "i", "interfaces", "I", "g", "groups"]),
        "arp" | "route" => true,
        _ => has(&["L", "list"]),
    };
    let given = reading.operands.iter().map(|word| word.text()).filter(|_| name == "arp");
    let sockets = reading.values(&["i"]);
    let named = |text: &str| text.split_once('@').is_some_and(|(_, address)| !is_numeric(address));
    let resolves = shows_addresses && !has(&["n", "numeric", "numeric-hosts"])
        || given.into_iter().any(|text| !is_numeric(text))
        || name == "lsof" && sockets.into_iter().any(named);
    if resolves {
        state.note(call.span, RiskClass::ReadsRemote, "resolves names");
    }
    if name == "lsof" && reading.operands.iter().any(|word| word.text().starts_with('+')) {
        state.note(call.span, RiskClass::Changes, "an unknown option");
    }
    if name == "lsof" && reading.operands.iter().any(|word| word.text().contains('@')) {
        state.note(call.span, RiskClass::ReadsRemote, "resolves names");
    }
}

/// Returns true for a number, a port, or an address with an optional port or prefix.
fn is_numeric(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_address = |text: &str| {
        let (address, prefix) = text.split_once('/').unwrap_or((text, "0"));
        let address = address.trim_start_matches('[').trim_end_matches(']');
        digits(prefix) && (address == "*" || address.parse::<IpAddr>().is_ok())
    };
    match text.rsplit_once(':') {
        _ if digits(text) || is_address(text) => true,
        Some((host, port)) => (host.is_empty() || is_address(host)) && (digits(port) || port == "*"),
        None => false,
    }
}
