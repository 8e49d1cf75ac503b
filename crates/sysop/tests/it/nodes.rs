//! Several `sysop serve` on one PostgreSQL: acknowledged events are stored, started calls are known, and nothing runs
//! twice, however the nodes and their database end, freeze and recover.

mod chaos;
mod moves;
mod outage;
mod world;
