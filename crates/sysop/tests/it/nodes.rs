//! Several `sysop serve` on one PostgreSQL: what is told is kept, what ran is known, and nothing runs twice, however
//! nodes and their database end, freeze and come back.

mod chaos;
mod moves;
mod outage;
mod world;
